"""Jobs: an action, when to start it, how often, how to retry it, and what to do when it fails for good.

records     what the store keeps of collections, jobs and their history
"""
