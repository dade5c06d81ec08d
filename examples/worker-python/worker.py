import asyncio
import parley

async def my_agent(question):  # the agent you have: anything that gives text, in pieces or at once
    for word in f"You said: {question}".split(" "):
        await asyncio.sleep(0.05)
        yield word + " "

async def answer(turn):
    if turn.text.startswith("pay "):
        ok = await turn.approve("pay", {"to": turn.text[4:]}, text="May I pay?")
        if not ok:
            await turn.say(f"Then not. {ok.reason}")
            return
        await turn.tool("pay", {"to": turn.text[4:]}, lambda to: f"paid {to}", call_id=ok.call_id)
    await turn.say(my_agent(turn.text))

asyncio.run(parley.work("echo", answer))
