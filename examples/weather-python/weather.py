# An agent that asks a question and answers with the reply.
import asyncio
import parley

async def answer(turn: parley.Turn) -> None:
    city = await turn.ask("Which city?")  # waits for a person, also over restarts
    await turn.say(f"It is sunny in {city}.")

asyncio.run(parley.work("weather", answer))  # then: parley chat --agent weather
