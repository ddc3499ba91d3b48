// Readers that leave a stream and return to it: in the same runtime, in another one over the same store, in the middle of
// an answer and behind its end.
import { assert, describe, it } from "vitest"
import { convertToModelMessages, readUIMessageStream, streamText, toUIMessageStream, type UIMessage } from "ai"
import { MockLanguageModelV4 } from "ai/test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FromAiSdk, languageModel, runningModel } from "../../../src/kit/entry/ai-sdk.ts"
import { createHermes, type Hermes, HermesError, type HermesOptions } from "../../../src/kit/entry/promise.ts"

const usage = {
  inputTokens: { total: 20, noCache: 20, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 4, text: 4, reasoning: 0 }
}

/** A model that says the first words, and the others when the gate opens. */
const makeGate = () => {
  const { promise, resolve: open } = Promise.withResolvers<void>()
  const model = new MockLanguageModelV4({
    doStream: async () => ({
      stream: ReadableStream.from(
        (async function* () {
          yield { type: "text-start" as const, id: "0" }
          yield { type: "text-delta" as const, id: "0", delta: "It is " }
          yield { type: "text-delta" as const, id: "0", delta: "very " }
          await promise
          yield { type: "text-delta" as const, id: "0", delta: "cold." }
          yield { type: "text-end" as const, id: "0" }
          yield { type: "finish" as const, finishReason: { unified: "stop" as const, raw: "stop" }, usage }
        })()
      )
    })
  })
  return { layer: FromAiSdk.layer(model), open }
}

type Events = ReturnType<Hermes["watch"]>

/** Reads until a text; returns the texts, and leaves the loop. */
const readUntil = async (events: Events, text: string): Promise<string> => {
  let said = ""
  for await (const event of events) {
    if (event._tag === "TextDelta") said += event.text
    if (said.endsWith(text)) break
  }
  return said
}

const readAll = async (
  events: Events,
  begun: () => void = () => {}
): Promise<readonly [tags: ReadonlyArray<string>, text: string]> => {
  const tags: Array<string> = []
  let said = ""
  for await (const event of events) {
    begun()
    if (event._tag === "TextDelta") said += event.text
    tags.push(event._tag)
  }
  return [tags, said]
}

const withFile = async (use: (store: HermesOptions["store"]) => Promise<void>): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), "hermes-watch-"))
  try {
    await use({ sqlite: join(directory, "state.db") })
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const kept = { prompt: "How is it?", sessionId: "s", whenLeft: "continue" } as const

describe("a reader that returns", () => {
  it("receives the rest of an active run, as it happens", async () => {
    const { layer, open } = makeGate()
    await using hermes = createHermes({ model: layer, store: "memory" })
    assert.isUndefined(await hermes.activeRun("s"))
    const stream = hermes.stream(kept)
    assert.isUndefined(stream.cursor)
    assert.strictEqual(await readUntil(stream, "is "), "It is ")
    const whole = hermes.watch({ sessionId: "s" })
    assert.strictEqual(await readUntil(whole, "very "), "It is very ")
    const again = hermes.watch({ sessionId: "s", after: stream.cursor })
    assert.strictEqual(await readUntil(again, "very "), "very ")
    assert.isString(await hermes.activeRun("s"))
    const last = readAll(hermes.watch({ sessionId: "s", after: again.cursor }))
    open()
    const [tags, text] = await last
    assert.strictEqual(text, "cold.")
    assert.strictEqual(tags.at(-1), "RunFinished")
    assert.notInclude(tags, "StepStarted")
    // The run is over: the record has it.
    assert.deepStrictEqual(await readAll(hermes.watch({ sessionId: "s", after: stream.cursor })), [
      ["TextDelta", "RunFinished"],
      "very cold."
    ])
    assert.isUndefined(await hermes.activeRun("s"))
    assert.deepStrictEqual(await readAll(hermes.watch({ sessionId: "s" })), [[], ""])
  })

  it("receives it in another runtime over the same store, with its cursor or from the beginning", async () =>
    withFile(async (store) => {
      const { layer, open } = makeGate()
      await using hermes = createHermes({ model: layer, store })
      await using other = createHermes({ model: "offline", store })
      const stream = hermes.stream(kept)
      await readUntil(stream, "very ")
      const begun = Promise.withResolvers<void>()
      const readers = Promise.all([
        readAll(other.watch({ sessionId: "s", after: stream.cursor })),
        readAll(other.watch({ sessionId: "s" }), begun.resolve)
      ])
      assert.isString(await other.activeRun("s"))
      await begun.promise
      open()
      const [rest, whole] = await readers
      assert.deepStrictEqual(rest, [["TextDelta", "RunFinished"], "cold."])
      assert.deepStrictEqual(whole, [["RunStarted", "StepStarted", "TextDelta", "RunFinished"], "It is very cold."])
    }))

  it("of a run that ended with its reader learns so", async () => {
    const { layer } = makeGate()
    await using hermes = createHermes({ model: layer, store: "memory" })
    const stream = hermes.stream({ prompt: "How is it?", sessionId: "s" })
    await readUntil(stream, "is ")
    const error = await readAll(hermes.watch({ sessionId: "s", after: stream.cursor })).catch((error: unknown) => error)
    assert.instanceOf(error, HermesError)
    assert.deepInclude(error, { tag: "RunLost", message: "the run was interrupted" })
  })

  it("with a cursor of another session or of nothing is refused", async () => {
    await using hermes = createHermes({ model: "offline", store: "memory" })
    const stream = hermes.stream({ prompt: "Reply exactly secret", sessionId: "alice" })
    await readUntil(stream, "secret")
    await hermes.run({ prompt: "Reply exactly hi", sessionId: "bob" })
    const error = await readAll(hermes.watch({ sessionId: "bob", after: stream.cursor })).catch(
      (error: unknown) => error
    )
    assert.deepInclude(error, { tag: "RunLost" })
    assert.throws(() => hermes.watch({ sessionId: "bob", after: "cursor" }), /^after: this is not a cursor/u)
  })

  it("does not keep a run from its signal and from the end of the runtime", async () => {
    const { layer } = makeGate()
    const hermes = createHermes({ model: layer, store: "memory" })
    const ending = new AbortController()
    await readUntil(hermes.stream({ ...kept, signal: ending.signal }), "is ")
    const begun = Promise.withResolvers<void>()
    const reader = readAll(hermes.watch({ sessionId: "s" }), begun.resolve).catch((error: unknown) => error)
    await begun.promise
    ending.abort()
    assert.instanceOf(await reader, HermesError)
    assert.isUndefined(await hermes.activeRun("s"))
    await readUntil(hermes.stream(kept), "is ")
    const more = Promise.withResolvers<void>()
    const last = readAll(hermes.watch({ sessionId: "s" }), more.resolve).catch((error: unknown) => error)
    await more.promise
    await hermes.dispose()
    assert.instanceOf(await last, HermesError)
  })
})

describe("the AI SDK's protocol of streams that are resumed", () => {
  const question: UIMessage = { id: "q", role: "user", parts: [{ type: "text", text: "How is it?" }] }

  it("returns an answer to a second reader, and nothing if none is active", async () => {
    const { layer, open } = makeGate()
    await using hermes = createHermes({ model: layer, store: "memory" })
    assert.isUndefined(await runningModel(hermes, { sessionId: "chat" }))
    const { stream } = streamText({
      model: languageModel(hermes, { whenLeft: "continue" }),
      messages: await convertToModelMessages([question]),
      providerOptions: { hermes: { sessionId: "chat" } }
    })
    for await (const part of stream) if (part.type === "text-delta") break
    const model = await runningModel(hermes, { sessionId: "chat" })
    if (model === undefined) throw new Error("the run ended with its reader")
    const resumed = streamText({ model, prompt: "resumed" })
    setTimeout(open)
    let message: UIMessage | undefined
    for await (const next of readUIMessageStream({ stream: toUIMessageStream({ stream: resumed.stream }) }))
      message = next
    assert.deepStrictEqual(
      message?.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])),
      ["It is very cold."]
    )
    assert.isUndefined(await runningModel(hermes, { sessionId: "chat" }))
    const said = await hermes.readSession("chat")
    assert.deepStrictEqual(
      said?.map(({ role }) => role),
      ["user", "assistant"]
    )
  })
})
