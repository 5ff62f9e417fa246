"""Orders: the running example of the Scheduler-Agent-Supervisor pattern.

order     what a customer orders
workflow  an agent around the payment provider, its step with its undo, and the workflow of an order
record    the pattern's five columns, made from a task and its steps
table     where orders are kept: in the store's own file, so that an order and its task commit together
web       takes orders and shows their records
app       workflow and web together: ``backstay serve orders.app:app``
payment   the payment provider, a service of somebody else: ``python -m orders.payment``
ledger    what the provider keeps
wire      what both web applications share: bodies that are checked, and problems

Each of these is a process of its own; any of them may die, and the last three may run more than once:

    python -m orders.payment
    backstay serve orders.app:app --store sqlite:///orders.db --roles api
    backstay serve orders.app:app --store sqlite:///orders.db --roles scheduler,agents
    backstay serve orders.app:app --store sqlite:///orders.db --roles supervisor

The scheduler reads two variables: PAYMENT_URL, where the provider is, and PAYMENT_COMPLETE_BY, how long a
charge may take. docs/orders.md follows an order through all of it.
"""
