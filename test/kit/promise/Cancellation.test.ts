// The end of runs without Effect: by a signal, by leaving the loop, by `dispose`, whether or not anybody reads.
import { assert, describe, it } from "vitest"
import * as Effect from "effect/Effect"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import * as z from "zod"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import { createHermes, fromLayer, type Hermes, HermesError, tool } from "../../../src/kit/entry/promise.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

const reason = new Error("enough")

const failed = async (promise: Promise<unknown>): Promise<readonly [tag: string, cause: unknown]> => {
  const error: unknown = await promise.then(
    () => undefined,
    (given: unknown) => given
  )
  assert.instanceOf(error, HermesError)
  return [error.tag, error.cause]
}

/** A runtime over a script, and the ends of its runs. */
const watched = (turns: ReadonlyArray<Scripted.Turn>, tools: ReadonlyArray<ReturnType<typeof tool>> = []) => {
  const ends: Array<string> = []
  const waiting: Array<() => void> = []
  const hermes = fromLayer(
    Runtime.layer({
      provider: Scripted.layer(turns),
      tools: tools.map(({ toolset }) => toolset),
      retry: RetryPolicy.none,
      hooks: [
        Hooks.on("on_session_end", ({ session_id }) =>
          Effect.sync(() => {
            ends.push(session_id)
            for (const done of waiting.splice(0)) done()
          })
        )
      ]
    })
  )
  /** Ends with the next end of a run. */
  const ended = () => new Promise<void>((resolve) => void waiting.push(resolve))
  return { hermes, ends, ended }
}

const hangs = (count = 4) => Array.from({ length: count }, () => Scripted.hang({ pieces: ["It ", "is "] }))

/** More events than a run may be ahead of its reader. */
const long = Scripted.complete({ pieces: Array.from({ length: 600 }, (_, index) => `${index} `) })

const isText = ({ _tag }: RunEvent): boolean => _tag === "TextDelta"

/** Reads up to the first event that fits. */
const readTo = async (events: AsyncIterator<RunEvent>, fits: (event: RunEvent) => boolean): Promise<void> => {
  for (let next = await events.next(); next.done !== true; next = await events.next()) if (fits(next.value)) return
}

const isFree = async (hermes: Hermes, sessionId: string): Promise<void> => {
  const events = hermes.stream({ prompt: "Again.", sessionId })
  await readTo(events, isText)
  await events.return?.()
}

describe("a signal", () => {
  it("that is aborted already keeps a run and a stream from beginning", async () => {
    const { ends, hermes } = watched(hangs())
    const signal = AbortSignal.abort(reason)
    assert.deepStrictEqual(await failed(hermes.run({ prompt: "Go.", signal })), ["Aborted", reason])
    const events = hermes.stream({ prompt: "Go.", signal })
    assert.deepStrictEqual(await failed(events.next()), ["Aborted", reason])
    assert.isTrue((await events.next()).done)
    assert.deepStrictEqual(ends, [])
    await hermes.dispose()
  })

  it("closes the connection of the model call", async () => {
    const controller = new AbortController()
    const server = createServer()
    const closed = new Promise<void>((resolve) => {
      server.on("request", (request, response) => {
        if (request.url?.endsWith("/chat/completions") !== true) return void response.writeHead(404).end()
        // A client that hangs up closes the answer.
        response.on("close", resolve)
        controller.abort(reason)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    // A TCP server that listens has an AddressInfo.
    const { port } = server.address() as AddressInfo
    const hermes = createHermes({
      model: { provider: "custom", model: "m", baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: "k" }
    })
    assert.deepStrictEqual(await failed(hermes.run({ prompt: "Go.", signal: controller.signal })), ["Aborted", reason])
    await closed
    await hermes.dispose()
    server.close()
  })

  it("aborts the tool that runs, whose call is closed as one that may have happened", async () => {
    const controller = new AbortController()
    let isAborted = false
    const wait = tool({
      name: "wait",
      description: "Waits",
      input: z.object({}),
      execute: (_, { signal }) =>
        new Promise(() => {
          signal.addEventListener("abort", () => void (isAborted = signal.aborted))
          controller.abort(reason)
        })
    })
    const { ends, hermes } = watched(
      [Scripted.complete({ toolCalls: [{ name: "wait", params: {} }] }), Scripted.complete("I see.")],
      [wait]
    )
    const outputs: Array<string> = []
    const onEvent = (event: RunEvent) => (event._tag === "ToolFinished" ? void outputs.push(event.output) : undefined)
    assert.deepStrictEqual(
      await failed(hermes.run({ prompt: "Go.", sessionId: "s", signal: controller.signal, onEvent })),
      ["Aborted", reason]
    )
    assert.deepStrictEqual([isAborted, ends], [true, ["s"]])
    assert.match(outputs.join(), /may have happened/)
    assert.strictEqual((await hermes.run({ prompt: "Go on.", sessionId: "s" })).text, "I see.")
    await hermes.dispose()
  })

  for (const [name, turn] of [
    ["waits for the model", Scripted.hang({ pieces: ["It "] })],
    ["waits for its reader", long]
  ] as const) {
    it(`ends a run that ${name} though nobody reads any more`, async () => {
      const { ended, hermes } = watched([turn, ...hangs()])
      const controller = new AbortController()
      const events = hermes.stream({ prompt: "Go.", sessionId: "s", signal: controller.signal })
      await readTo(events, isText)
      const end = ended()
      controller.abort(reason)
      await end
      assert.deepStrictEqual(await failed(readTo(events, () => false)), ["Aborted", reason])
      assert.isTrue((await events.next()).done)
      await isFree(hermes, "s")
      await hermes.dispose()
    })
  }

  it("that is aborted after the end changes nothing", async () => {
    const { hermes } = watched([Scripted.complete("One."), Scripted.complete("Two.")])
    const controller = new AbortController()
    assert.strictEqual((await hermes.run({ prompt: "Go.", signal: controller.signal })).text, "One.")
    const tags: Array<string> = []
    for await (const { _tag } of hermes.stream({ prompt: "Go.", signal: controller.signal })) {
      tags.push(_tag)
      if (_tag === "RunFinished") controller.abort(reason)
    }
    assert.strictEqual(tags.at(-1), "RunFinished")
    await hermes.dispose()
  })
})

describe("a stream", () => {
  it("begins with the first event that is asked for, and is for one loop", async () => {
    const { ends, hermes } = watched([Scripted.complete("One.")])
    const unread = hermes.stream("Go.")
    assert.deepStrictEqual(await unread.return?.(), { done: true, value: undefined })
    assert.isTrue((await unread.next()).done)
    const events = hermes.stream("Go.")
    const first: Array<string> = []
    for await (const event of events) first.push(event._tag)
    for await (const event of events) assert.fail(event._tag)
    assert.deepStrictEqual([first.at(-1), ends.length], ["RunFinished", 1])
    await hermes.dispose()
  })

  it("gives its events in order to a reader that asks for several at once", async () => {
    const { hermes } = watched([long])
    const events = hermes.stream("Go.")
    const asked = Array.from({ length: 620 }, () => events.next())
    const text = (await Promise.all(asked))
      .flatMap(({ done, value }: IteratorResult<RunEvent>) =>
        done !== true && value._tag === "TextDelta" ? [value.text] : []
      )
      .join("")
    assert.strictEqual(text, Array.from({ length: 600 }, (_, index) => `${index} `).join(""))
    assert.isTrue((await events.next()).done)
    await hermes.dispose()
  })

  it("tells a listener of its input too", async () => {
    const { hermes } = watched([Scripted.complete("One.")])
    const told: Array<string> = []
    const read: Array<string> = []
    for await (const { _tag } of hermes.stream({ prompt: "Go.", onEvent: ({ _tag }) => void told.push(_tag) }))
      read.push(_tag)
    assert.deepStrictEqual(told, read)
    await hermes.dispose()
  })

  it("that is left has ended before the loop goes on", async () => {
    const { ends, hermes } = watched([...hangs(1), long, ...hangs()])
    for (const sessionId of ["waits for the model", "waits for its reader"]) {
      for await (const event of hermes.stream({ prompt: "Go.", sessionId })) if (isText(event)) break
      assert.strictEqual(ends.at(-1), sessionId)
      await isFree(hermes, sessionId)
    }
    await hermes.dispose()
  })

  it("can be left while an event is waited for", async () => {
    const { ends, hermes } = watched(hangs())
    const events = hermes.stream("Go.")
    await readTo(events, (event) => event._tag === "TextDelta" && event.text === "is ")
    const waiting = [events.next(), events.next()]
    assert.isTrue((await events.return?.())?.done)
    assert.deepStrictEqual(
      (await Promise.all(waiting)).map(({ done }) => done),
      [true, true]
    )
    assert.strictEqual(ends.length, 1)
    await hermes.dispose()
  })

  it("ends with the failure of its run, once", async () => {
    const hermes = createHermes({ model: { provider: "anthropic", model: "claude-sonnet-4-6" } })
    const events = hermes.stream("Go.")
    assert.strictEqual((await failed(events.next()))[0], "ConfigError")
    assert.isTrue((await events.next()).done)
    await hermes.dispose()
  })
})

describe("dispose", () => {
  it("ends runs and streams, read or not, and can be called again", async () => {
    const { ends, hermes } = watched([...hangs(2), long])
    let begun: () => void = () => undefined
    const begins = new Promise<void>((resolve) => (begun = resolve))
    const run = failed(
      hermes.run({
        prompt: "Go.",
        sessionId: "run",
        streaming: true,
        onEvent: (event) => (isText(event) ? begun() : undefined)
      })
    )
    await begins
    const streams = [
      hermes.stream({ prompt: "Go.", sessionId: "hangs" }),
      hermes.stream({ prompt: "Go.", sessionId: "long" })
    ]
    for (const events of streams) await readTo(events, isText)
    await Promise.all([hermes.dispose(), hermes.dispose()])
    await hermes.dispose()
    await hermes[Symbol.asyncDispose]()
    assert.deepStrictEqual(ends.toSorted(), ["hangs", "long", "run"])
    assert.strictEqual((await run)[0], "Aborted")
    for (const events of streams) assert.strictEqual((await failed(readTo(events, () => false)))[0], "Aborted")
  })

  it("leaves nothing that could be run", async () => {
    const { hermes } = watched(hangs())
    const unread = hermes.stream("Go.")
    await hermes.dispose()
    assert.strictEqual((await failed(hermes.run("Go.")))[0], "Disposed")
    assert.strictEqual((await failed(unread.next()))[0], "Disposed")
    assert.strictEqual((await failed(hermes.stream("Go.").next()))[0], "Disposed")
    assert.isFalse(await hermes.stop("any"))
  })

  it("can be called by a listener and by a tool of the run that it ends", async () => {
    const listening = watched(hangs())
    const run = listening.hermes.run({
      prompt: "Go.",
      streaming: true,
      onEvent: (event) => (isText(event) ? listening.hermes.dispose() : undefined)
    })
    assert.strictEqual((await failed(run))[0], "Aborted")
    await listening.hermes.dispose()
    const end: { dispose?: () => Promise<void> } = {}
    const leave = tool({ name: "leave", description: "Ends all", input: z.object({}), execute: () => end.dispose?.() })
    const { hermes } = watched([Scripted.complete({ toolCalls: [{ name: "leave", params: {} }] })], [leave])
    end.dispose = hermes.dispose
    assert.strictEqual((await failed(hermes.run("Go.")))[0], "Aborted")
    await hermes.dispose()
  })
})

describe("runs at once", () => {
  it("are apart, each with its own events and its own end", async () => {
    const { hermes } = watched(Array.from({ length: 8 }, (_, index) => Scripted.complete(`${index}`)))
    const texts = await Promise.all(
      Array.from({ length: 8 }, async (_, index) => {
        let shown = ""
        for await (const event of hermes.stream({ prompt: "Go.", sessionId: `s${index}` })) {
          if (event._tag === "TextDelta") shown += event.text
          if (event._tag === "RunFinished") assert.deepStrictEqual([event.text, event.sessionId], [shown, `s${index}`])
        }
        return shown
      })
    )
    assert.deepStrictEqual(texts.toSorted(), ["0", "1", "2", "3", "4", "5", "6", "7"])
    await hermes.dispose()
  })

  it("on one session are refused but for the first, which goes on", async () => {
    const { hermes } = watched([Scripted.hang({ pieces: ["It "] }), Scripted.complete("Next.")])
    const events = hermes.stream({ prompt: "Go.", sessionId: "s" })
    await readTo(events, isText)
    const refused = await hermes.run({ prompt: "Go.", sessionId: "s" }).catch((error: unknown) => error)
    assert.instanceOf(refused, HermesError)
    assert.deepStrictEqual(
      [refused.tag, refused.message],
      ["SessionBusy", "session s is busy: wait for its run to end, or stop it"]
    )
    assert.isTrue(await hermes.stop("s"))
    let exit = ""
    for await (const event of events) if (event._tag === "RunFinished") exit = event.exit
    assert.strictEqual(exit, "interrupted_by_user")
    assert.strictEqual((await hermes.run({ prompt: "Go.", sessionId: "s" })).text, "Next.")
    await hermes.dispose()
  })
})
