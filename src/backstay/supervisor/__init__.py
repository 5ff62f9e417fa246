"""The supervisor notices what got stuck and has it taken up again. It runs no business code.

loop    leads if it can, and makes a round each period; many may run, one leads
sweep   one bounded round: dead instances, due wake-ups, overrun runs and steps, what is to be held back
prune   what ended long ago is forgotten, a few at a time
watch   troubles that nobody raises by itself, and how many alerts are kept
telling tells sinks of alerts: at least once each
sinks   what a sink is; webhook and command are such
"""
