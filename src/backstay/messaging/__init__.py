"""What roles say to each other.

wire   a scheduler asks an agent to do a step; the agent replies, or falls silent
"""
