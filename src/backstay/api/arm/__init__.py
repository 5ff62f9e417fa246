"""The REST API of Azure Scheduler, on the same port and behind the same guard as everything else.

routes       its table: the fifteen operations, and the provider
router       finds a route, whatever the letter case of a path, and asks for an api-version
versions     the api-versions, and what differs between them
shapes       paths, queries and answers
filters      ``$filter``
collections, jobs, provider
             the handlers
errors       every error as Azure Resource Manager writes it
headers      what every answer carries

Everything below ``/subscriptions`` is answered in this manner, also where it is refused before it gets here.
"""
