"""Orders: the running example of the Scheduler-Agent-Supervisor pattern.

The web application, which knows two queues and nothing else:

    order       what a customer orders
    web         takes orders, sends them to the queue ``orders``, and hears of them at a queue of its own
    book        what it remembers: the orders it took, and what it was told of each

Those who fulfil orders:

    submission  makes of each message a row and a task, in one transaction
    table       the rows, in the store's own database
    workflow    an agent around the payment provider, its step with its undo, and the workflow of an order
    record      the pattern's five columns, made from a task and its steps
    desk        where the staff looks at them
    app         all of these together: ``backstay serve orders.app:app``

Somebody else:

    payment     the payment provider: ``python -m orders.payment``
    ledger      what it keeps
    wire        what all web applications here share: bodies that are checked, and problems

Each of these is a process of its own, and any of them may die. BACKSTAY_STORE says where the store is:

    python -m orders.payment
    backstay serve orders.web:app --roles api,ingest
    backstay serve orders.app:app --roles ingest
    backstay serve orders.app:app --roles scheduler
    backstay serve orders.app:app --roles agents
    backstay serve orders.app:app --roles supervisor,api --port 8081

The web application reads WEB_DATABASE, the file of its book. Schedulers and agents read PAYMENT_URL, where
the provider is, and PAYMENT_COMPLETE_BY, how long a charge may take. docs/orders.md follows an order through
all of it.
"""
