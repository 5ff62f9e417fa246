"""The pages of jobs.

collections   job collections with their quotas, and the jobs of one
job           one job; history is all that became of it
acts          what an operator may do to a job, or to a collection
edit          the page on which one is written; form its fields, and the document that they stand for
places        where jobs are, as paths say it
words         jobs and collections, as pages show them
"""
