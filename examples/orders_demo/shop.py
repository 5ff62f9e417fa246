"""The application: four agents around the services, and the workflow that fulfils an order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from backstay import App, Retry
from examples.orders_demo.services import Services


@dataclass(frozen=True)
class Order:
    id: str
    customer: str
    cents: int
    city: str


def shop(services: Services) -> App:
    """Reserve the stock and check the customer at once, then charge, then ship; or undo all of it."""
    app = App("orders")
    patience = Retry(attempts=4, first="50ms", cap="500ms")
    stock = app.agent("stock", complete_by="2s", retry=patience)
    customers = app.agent("customers", complete_by="2s", retry=patience)
    bank = app.agent("bank", complete_by="2s", retry=patience)
    carrier = app.agent("carrier", complete_by="2s", retry=patience)

    @stock.step
    async def reserve_stock(order: Order) -> str:
        return await services.do("reserve", order.id)

    @reserve_stock.undo
    async def release_stock(order: Order) -> None:
        await services.take_back("reserve", order.id)

    @customers.step
    async def check_customer(order: Order) -> bool:
        return await services.look_up(order.customer)

    @bank.step
    async def charge_card(order: Order) -> str:
        return await services.do("charge", order.id)

    @charge_card.undo
    async def refund(order: Order) -> None:
        await services.take_back("charge", order.id)

    @carrier.step
    async def ship(order: Order) -> str:
        return await services.ship(order.id, order.city)

    @ship.undo
    async def call_back(order: Order) -> None:
        await services.take_back("ship", order.id)

    @app.workflow(complete_by="30s")
    async def fulfil(order: Order) -> str:
        await asyncio.gather(reserve_stock(order), check_customer(order))
        await charge_card(order)
        return await ship(order)

    return app
