"""The supervisor notices what got stuck and has it taken up again. It runs no business code.

sweep   one bounded round: dead instances, due wake-ups, overrun runs and steps
"""
