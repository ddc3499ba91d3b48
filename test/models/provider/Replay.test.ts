import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as PlatformError from "effect/PlatformError"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import type { ModelCall, StreamPart } from "../../../src/base/domain/ModelCall.ts"
import type { Service } from "../../../src/models/provider/Provider.ts"
import * as Replay from "../../../src/models/provider/Replay.ts"
import * as Recording from "../../../src/models/provider/replay/Recording.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import { call, textOf, user } from "./support/converse.ts"

const memory = (): { readonly lines: Array<string>; readonly sink: Replay.Sink } => {
  const lines: Array<string> = []
  return { lines, sink: (line) => Effect.sync(() => void lines.push(line)) }
}

const ask = Effect.fn(function* (provider: Service, said: string, options?: Partial<ModelCall>) {
  const seen: Array<StreamPart> = []
  const request = yield* provider.prepare(call([user(said)], options))
  const response = yield* provider.execute(request, {
    onPart: (parts) => Effect.sync(() => (seen.push(...parts), parts))
  })
  return { response, seen }
})

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

const recorded = Effect.fn(function* (turns: ReadonlyArray<Scripted.Turn>) {
  const { lines, sink } = memory()
  const script = yield* Scripted.make(turns)
  return { lines, provider: Replay.recordProvider(script.provider, sink), inspection: script.inspection }
})

describe("Replay", () => {
  it.effect("plays what was recorded, whole and streamed", () =>
    Effect.gen(function* () {
      const { lines, provider } = yield* recorded([
        Scripted.complete({
          reasoning: "hm",
          toolCalls: [{ name: "read_file", params: { path: "a" } }],
          usage: { input: 3 }
        }),
        Scripted.complete({ pieces: ["a ", "b c"] })
      ])
      const first = yield* ask(provider, "one")
      const second = yield* ask(provider, "two", { stream: true })
      assert.strictEqual(lines.length, 2)
      const replay = yield* Replay.makeProvider(lines)
      assert.deepStrictEqual(replay.info, provider.info)
      assert.deepStrictEqual(yield* ask(replay, "one"), first)
      const again = yield* ask(replay, "two", { stream: true })
      assert.deepStrictEqual(json(again.seen), json(second.seen))
      assert.deepStrictEqual({ ...again.response }, { ...second.response })
      assert.strictEqual(textOf(yield* replay.decode(second.response.raw)), "a b c")
    })
  )

  it.effect("plays errors, after what streamed before them", () =>
    Effect.gen(function* () {
      const { lines, provider } = yield* recorded([
        Scripted.fail(new AiError.RateLimitError({ retryAfter: Duration.seconds(2) }), { pieces: ["half"] })
      ])
      const before = yield* Effect.flip(ask(provider, "x", { stream: true }))
      const after = yield* Effect.flip(ask(yield* Replay.makeProvider(lines), "x", { stream: true }))
      assert.deepStrictEqual([after.module, after.reason._tag], [before.module, before.reason._tag])
      assert.strictEqual(String(after.retryAfter), String(before.retryAfter))
    })
  )

  it.effect("names the first place where a request is not the recorded one", () =>
    Effect.gen(function* () {
      const { lines, provider } = yield* recorded([Scripted.complete("a"), Scripted.complete("b")])
      yield* ask(provider, "one")
      const replay = yield* Replay.makeProvider(lines)
      const error = yield* Effect.flip(ask(replay, "two"))
      assert.isFalse(error.isRetryable)
      assert.include(
        error.message,
        'request 1 is not the recorded one: messages[0].content is "two", recorded was "one"'
      )
      const added = yield* Effect.flip(ask(replay, "one", { temperature: 1 }))
      assert.include(added.message, "temperature is 1, recorded was nothing")
      yield* ask(replay, "one")
      assert.include((yield* Effect.flip(ask(replay, "one"))).message, "has 1 exchange and was asked for request 2")
    })
  )

  it.effect("never writes a secret, and compares without them", () =>
    Effect.gen(function* () {
      const secrets = [
        "sk-proj-abcdefghijklmnopqrstuvwx",
        "sk-ant-api03-abcdefghijklmnopqrstuvwx",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "xoxb-123456789012-abcdefghijkl"
      ]
      const { lines, sink } = memory()
      const script = yield* Scripted.make([
        Scripted.complete({
          text: secrets.join(" "),
          toolCalls: [{ name: "login", params: { password: "hunter2hunter2" } }]
        })
      ])
      const provider = Replay.recordProvider(script.provider, sink)
      const prepared = yield* provider.prepare(call([user(`my key is ${secrets.join(", ")}`)]))
      const request = (last: string) => ({
        ...prepared,
        extra_headers: { Authorization: `Bearer ${last}`, Cookie: `id=${last}` },
        api_key: last
      })
      yield* provider.execute(request("abcdefgh12345678"))
      const written = lines.join("")
      for (const secret of [...secrets, "hunter2hunter2", "abcdefgh12345678"]) assert.notInclude(written, secret)
      const replay = yield* Replay.makeProvider(lines)
      yield* replay.execute(request("zyxwvuts87654321"))
    })
  )

  it.effect("keeps bytes in requests and raw answers", () =>
    Effect.gen(function* () {
      const { lines, sink } = memory()
      const script = yield* Scripted.make([Scripted.complete("seen")])
      const raw = { picture: new Uint8Array([1, 2, 3]), none: undefined }
      const inner: Service = {
        ...script.provider,
        execute: (request) => Effect.map(script.provider.execute(request), (response) => ({ ...response, raw }))
      }
      const request = (bytes: ReadonlyArray<number>) => ({ messages: [{ image: new Uint8Array(bytes) }] })
      yield* Replay.recordProvider(inner, sink).execute(request([7, 8]))
      const replay = yield* Replay.makeProvider(lines)
      assert.include((yield* Effect.flip(replay.execute(request([7, 9])))).message, "messages[0].image.~bytes")
      const response = yield* replay.execute(request([7, 8]))
      assert.deepStrictEqual(response.raw, { picture: new Uint8Array([1, 2, 3]) })
    })
  )

  it.effect("does not compare what names the session", () =>
    Effect.gen(function* () {
      const { lines, provider } = yield* recorded([Scripted.complete("a")])
      const request = yield* provider.prepare(call([user("x")]))
      yield* provider.execute({ ...request, prompt_cache_key: "session-1" })
      assert.notInclude(lines.join(""), "session-1")
      const replay = yield* Replay.makeProvider(lines)
      yield* replay.execute({ ...request, prompt_cache_key: "session-2" })
    })
  )

  it.effect("orders exchanges by their beginning and leaves out what was interrupted", () =>
    Effect.gen(function* () {
      const { lines, provider } = yield* recorded([
        Scripted.complete({ text: "slow", delay: "2 seconds" }),
        Scripted.complete("fast"),
        Scripted.hang()
      ])
      const slow = yield* Effect.forkChild(ask(provider, "slow"))
      yield* Effect.yieldNow
      yield* ask(provider, "fast")
      yield* TestClock.adjust("3 seconds")
      yield* Fiber.join(slow)
      const hanging = yield* Effect.forkChild(ask(provider, "hang"))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(hanging)
      assert.strictEqual(lines.length, 2)
      const replay = yield* Replay.makeProvider(lines)
      assert.strictEqual(textOf((yield* ask(replay, "slow")).response), "slow")
      assert.strictEqual(textOf((yield* ask(replay, "fast")).response), "fast")
    })
  )

  it.effect("writes to a file and reads it", () =>
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const path = `${yield* files.makeTempDirectoryScoped()}/recording.jsonl`
      const script = yield* Scripted.make([Scripted.complete("a"), Scripted.complete("b")])
      const provider = Replay.recordProvider(script.provider, yield* Replay.toFile(path))
      yield* ask(provider, "one")
      yield* ask(provider, "two")
      const replay = yield* Replay.makeProvider(yield* Replay.fromFile(path))
      assert.strictEqual(textOf((yield* ask(replay, "one")).response), "a")
      assert.strictEqual(textOf((yield* ask(replay, "two")).response), "b")
      const missing = yield* Effect.flip(Replay.fromFile(`${path}.gone`))
      assert.include(missing.message, "cannot be read")
    }).pipe(Effect.provide(NodeFileSystem.layer))
  )

  it.effect("fails a request that cannot be recorded", () =>
    Effect.gen(function* () {
      const script = yield* Scripted.make([Scripted.complete("a")])
      const provider = Replay.recordProvider(script.provider, () =>
        Effect.fail(PlatformError.systemError({ _tag: "PermissionDenied", module: "FileSystem", method: "writeFile" }))
      )
      const error = yield* Effect.flip(ask(provider, "x"))
      assert.include(error.message, "cannot be recorded")
    })
  )

  it.effect("says what is wrong with a recording", () =>
    Effect.gen(function* () {
      assert.include((yield* Effect.flip(Replay.makeProvider([]))).message, "empty")
      assert.include((yield* Effect.flip(Replay.makeProvider(["", "{"]))).message, "line 2 of the recording is no JSON")
      assert.include(
        (yield* Effect.flip(Replay.makeProvider(['{"version":2}']))).message,
        "line 1 of the recording is not a recorded exchange"
      )
    })
  )

  it.effect("prepares and reads all protocols without an SDK", () =>
    Effect.gen(function* () {
      const bodies = {
        chat_completions: { choices: [{ message: { role: "assistant", content: "hi" }, finish_reason: "stop" }] },
        anthropic_messages: {
          type: "message",
          role: "assistant",
          content: [{ type: "text", text: "hi" }],
          stop_reason: "end_turn"
        },
        codex_responses: {
          status: "completed",
          output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "hi" }] }]
        },
        bedrock_converse: {
          output: { message: { role: "assistant", content: [{ text: "hi" }] } },
          stopReason: "end_turn"
        },
        language_model: { content: [{ type: "text", text: "hi" }] }
      } as const
      for (const [apiMode, body] of Object.entries(bodies)) {
        const route = { provider: "p", model: "m", apiMode: apiMode as keyof typeof bodies }
        const protocol = yield* Replay.openProtocol(route)
        assert.include(JSON.stringify(protocol.prepare(call([user("question")]))), "question", apiMode)
        assert.strictEqual(textOf(yield* protocol.decode(body)), "hi", apiMode)
      }
    })
  )

  it("keeps bytes and sorts keys", () => {
    const value = { b: new Uint8Array([1, 2, 3]), a: [undefined, { d: 1, c: undefined }] }
    const canonical = Recording.toCanonical(value)
    assert.strictEqual(JSON.stringify(canonical), '{"a":[null,{"d":1}],"b":{"~bytes":"AQID"}}')
    assert.deepStrictEqual(Recording.reviveBytes(canonical), { a: [null, { d: 1 }], b: new Uint8Array([1, 2, 3]) })
    assert.isUndefined(Recording.findDifference(canonical, Recording.toCanonical({ a: [null, { d: 1 }], b: value.b })))
  })
})
