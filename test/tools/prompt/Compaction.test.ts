// Compaction: what is shortened, what stays word for word, and what happens when no summary can be had.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import { ConfigError } from "../../../src/base/domain/AgentError.ts"
import { SessionId, TaskId, TurnId } from "../../../src/base/domain/Ids.ts"
import * as Compaction from "../../../src/tools/prompt/Compaction.ts"
import * as SummaryPauses from "../../../src/tools/prompt/compaction/SummaryPauses.ts"
import * as Prune from "../../../src/tools/prompt/compaction/Prune.ts"
import * as Split from "../../../src/tools/prompt/compaction/Split.ts"
import * as SummaryText from "../../../src/tools/prompt/compaction/SummaryText.ts"
import type { Request } from "../../../src/models/routing/CompactionPort.ts"
import { effectProp, prop } from "../../support/property.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const system = Prompt.systemMessage({ content: "system" })
const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
const says = (text: string) => Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })
const calls = (...made: ReadonlyArray<readonly [id: string, name: string, params: unknown]>) =>
  Prompt.assistantMessage({
    content: made.map(([id, name, params]) => Prompt.toolCallPart({ id, name, params, providerExecuted: false }))
  })
const result = (id: string, name: string, output: unknown, isFailure = false) =>
  Prompt.toolMessage({
    content: [Prompt.toolResultPart({ id, name, isFailure, result: output, providerExecuted: false })]
  })
const textOf = (message: Prompt.Message | undefined): string =>
  message === undefined
    ? ""
    : typeof message.content === "string"
      ? message.content
      : message.content
          .map((part) =>
            part.type === "text"
              ? part.text
              : part.type === "tool-result"
                ? Prune.readResultText(part)
                : part.type === "tool-call"
                  ? JSON.stringify(part.params)
                  : ""
          )
          .join("")

const context = { sessionId: SessionId.make("s"), taskId: TaskId.make("s"), turnId: TurnId.make("t") }
const long = (name: string, chars = 4_000) => `${name} ${"x".repeat(chars)}`

/** A conversation of `turns` questions, each with an answer of about a thousand tokens. */
const talk = (turns: number): ReadonlyArray<Prompt.Message> => [
  system,
  ...Array.from({ length: turns }, (_, at) => [user(`question ${at}`), says(long(`answer ${at}`))]).flat()
]

const engine = (
  answer: Compaction.Summarise = () => Effect.succeed("the note"),
  settings: Compaction.Settings = {}
) => {
  const asked: Array<string> = []
  const told: Array<string> = []
  const service = Compaction.make(settings, (ask) =>
    Effect.suspend(() => {
      asked.push(textOf(ask.message))
      return answer(ask)
    })
  )
  const compact = (messages: ReadonlyArray<Prompt.Message>, more: Partial<Request> = {}) =>
    service.compact({
      ...context,
      messages,
      window: 40_000,
      reason: "threshold",
      notify: (text) => Effect.sync(() => void told.push(text)),
      ...more
    })
  return { service, asked, told, compact }
}

describe("old results are shortened without a model", () => {
  it("to a line that names tool, arguments and size; the newest of equal ones stays", () => {
    const output = { output: "line\n".repeat(100), exit_code: 2 }
    const messages = [
      system,
      calls(["1", "terminal", { command: "npm   test" }]),
      result("1", "terminal", output, true),
      calls(["2", "read_file", { path: "a.ts", offset: 5, limit: 9 }]),
      result("2", "read_file", "b".repeat(300)),
      calls(["3", "mine", { x: 1, y: "two", z: 3 }]),
      result("3", "mine", "c".repeat(300)),
      calls(["4", "mine", { x: 2 }]),
      result("4", "mine", "c".repeat(300)),
      calls(["5", "mine", { x: 3 }]),
      result("5", "mine", "short")
    ]
    const pruned = Prune.prune(messages, 1, messages.length - 2)
    assert.deepStrictEqual(
      [2, 4, 6, 8].map((at) => textOf(pruned[at])),
      [
        "[terminal (command npm test) failed, exit code 2: 500 characters in 101 lines, left out to save room]",
        "[read_file (path a.ts, offset 5): 300 characters in 1 line, left out to save room]",
        "[Same output as a later call]",
        "[mine (x 2): 300 characters in 1 line, left out to save room]"
      ]
    )
    assert.strictEqual(pruned[10], messages[10])
  })

  it("a line of a failure has its error, and is not shortened again", () => {
    const error = `TypeError: ${"a".repeat(150)}`
    const failures = [
      result("1", "terminal", { output: `start\n${error}\n${"x".repeat(900)}`, exit_code: 1 }),
      result("2", "mine", `${"y".repeat(300)}\nconnection refused`, true),
      result("3", "mine", `${"z".repeat(300)}\nconnection refused`)
    ]
    const messages = [
      calls(["1", "terminal", { command: "npm test" }], ["2", "mine", {}], ["3", "mine", {}]),
      ...failures
    ]
    const pruned = Prune.prune(messages, 0, messages.length)
    const lines = pruned.slice(1).map(textOf)
    assert.isTrue(lines[0]?.endsWith(`left out to save room; it said: ${error}]`), lines[0])
    assert.isTrue(lines[1]?.endsWith("left out to save room; it said: connection refused]"), lines[1])
    assert.isTrue(lines[2]?.endsWith("left out to save room]"), lines[2])
    assert.deepStrictEqual(Prune.prune(pruned, 0, pruned.length), pruned)
  })

  it("a failed command whose result is JSON text keeps its exit code and its error", () => {
    const output = `> test\n${"ok 1 - fine\n".repeat(400)}Error: expected 1 to equal 2`
    const line = (stored: string) => {
      const messages = [calls(["1", "terminal", { command: "npm test" }]), result("1", "terminal", stored)]
      return textOf(Prune.prune(messages, 0, 2)[1])
    }
    assert.strictEqual(
      line(JSON.stringify({ output, exit_code: 1, error: null })),
      `[terminal (command npm test), exit code 1: ${output.length} characters in 402 lines, left out to save room; it said: Error: expected 1 to equal 2]`
    )
    assert.include(line(JSON.stringify({ output, exit_code: -1, error: "no shell" })), "exit code -1")
    assert.include(line(JSON.stringify({ output, exit_code: -1, error: "no shell" })), "it said: no shell]")
    const cut = `${JSON.stringify({ output, exit_code: 1, error: null }).slice(0, 300)} … ","exit_code":1,"error":null}`
    assert.include(line(cut), "exit code 1:")
  })

  it("arguments stay valid, and files are named", () => {
    const messages = [
      calls(["1", "write_file", { path: "a", content: "y".repeat(600), lines: ["z".repeat(300), 1] }]),
      Prompt.userMessage({
        content: [
          Prompt.textPart({ text: "look" }),
          Prompt.filePart({ mediaType: "image/png", data: "AAAA", fileName: "a.png" })
        ]
      })
    ]
    const [call, look] = Prune.prune(messages, 0, 2)
    assert.deepStrictEqual(JSON.parse(textOf(call)), {
      path: "a",
      content: `${"y".repeat(200)}… [600 characters]`,
      lines: [`${"z".repeat(200)}… [300 characters]`, 1]
    })
    assert.strictEqual(textOf(look), "look[image/png a.png, left out to save room]")
  })
})

/** Conversations of any shape in which every call has its result. */
const Shape = Schema.Array(
  Schema.Struct({
    kind: Schema.Literals(["user", "answer", "calls"]),
    size: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3_000 })),
    count: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 4 }))
  })
).check(Schema.isMaxLength(60))

const conversation = (shape: typeof Shape.Type): ReadonlyArray<Prompt.Message> => [
  system,
  user("the task"),
  ...shape.flatMap(({ count, kind, size }, at): ReadonlyArray<Prompt.Message> => {
    if (kind === "user") return [user(`user ${at} ${"u".repeat(size)}`)]
    if (kind === "answer") return [says(`answer ${at} ${"a".repeat(size)}`)]
    const ids = Array.from({ length: count }, (_, index) => `${at}_${index}`)
    return [
      calls(...ids.map((id) => [id, "tool", { id }] as const)),
      ...ids.map((id) => result(id, "tool", "r".repeat(size)))
    ]
  })
]

const pairsAreWhole = (messages: ReadonlyArray<Prompt.Message>): boolean => {
  const open = new Set<string>()
  for (const message of messages) {
    if (typeof message.content === "string") continue
    for (const part of message.content) {
      if (part.type === "tool-call") open.add(part.id)
      if (part.type === "tool-result" && !open.delete(part.id)) return false
    }
  }
  return open.size === 0
}

describe("head, note and tail", () => {
  prop(
    "no call is without its result, and the newest message of the user is there word for word",
    { shape: Shape },
    ({ shape }) => {
      const messages = conversation(shape)
      const parts = Split.split(messages, { protectFirst: 3, tailTokens: 1_000 })
      if (parts === undefined) return
      const kept = [...parts.head, ...(parts.pinned === undefined ? [] : [parts.pinned]), ...parts.tail]
      assert.isTrue(pairsAreWhole(kept))
      assert.isTrue(pairsAreWhole(parts.middle))
      assert.include(
        kept,
        messages.findLast(({ role }) => role === "user")
      )
      assert.deepStrictEqual(parts.head.slice(0, 4), messages.slice(0, 4))
      assert.isAtLeast(parts.tail.length, 3)
      assert.strictEqual(
        parts.head.length + parts.middle.length + parts.tail.length + (parts.pinned === undefined ? 0 : 1),
        messages.length
      )
    }
  )

  effectProp(
    "whatever the engine and its bounds: pairs are whole, the head is the same, the newest messages and what the user said last are there",
    {
      shape: Shape,
      kind: Schema.Literals(["compressor", "responses_compact"]),
      reason: Schema.Literals(["threshold", "manual", "context_overflow"]),
      protectFirst: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 6 })),
      keepExchanges: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 }))
    },
    ({ keepExchanges, kind, protectFirst, reason, shape }) =>
      Effect.gen(function* () {
        const messages = conversation(shape)
        const provider = { ability: Effect.succeed("item" as const), compact: () => Effect.succeed("sealed") }
        const service = Compaction.make(
          { engine: kind, protectFirst, protectLast: 4 },
          () => Effect.succeed("the note"),
          { provider }
        )
        const compacted = yield* service.compact({
          ...context,
          messages,
          window: 8_000,
          reason,
          ...(keepExchanges === 0 ? {} : { keepExchanges })
        })
        assert.isTrue(pairsAreWhole(compacted))
        assert.isAtMost(Split.estimateTotalTokens(compacted), Split.estimateTotalTokens(messages))
        for (const [at, message] of messages.slice(0, 1 + protectFirst).entries()) {
          if (message.role !== "tool") assert.strictEqual(compacted[at], message)
        }
        assert.include(
          compacted,
          messages.findLast(({ role }) => role === "user")
        )
        assert.strictEqual(compacted.at(-1), messages.at(-1))
      })
  )

  it.effect("system, three messages, one note, tail (case 61)", () =>
    Effect.gen(function* () {
      const messages = talk(30)
      const { asked, compact } = engine()
      const compacted = yield* compact(messages)
      assert.deepStrictEqual(compacted.slice(0, 4), messages.slice(0, 4))
      assert.strictEqual(SummaryText.findSummary(compacted[4] ?? system), "the note")
      assert.strictEqual(compacted.filter((message) => SummaryText.findSummary(message) !== undefined).length, 1)
      const tail = compacted.slice(5)
      assert.deepStrictEqual(tail, messages.slice(-tail.length))
      assert.strictEqual(asked.length, 1)
      assert.include(asked[0], "USER: question 2")
      assert.notInclude(asked[0], "question 29")
    })
  )

  it.effect("as many of the newest exchanges stay as the user asks for", () =>
    Effect.gen(function* () {
      const messages = talk(30)
      const { compact } = engine()
      for (const keepExchanges of [1, 4, 20]) {
        const compacted = yield* compact(messages, { reason: "manual", keepExchanges })
        assert.deepStrictEqual(compacted.slice(5), messages.slice(-2 * keepExchanges))
      }
      assert.strictEqual(yield* compact(messages, { reason: "manual", keepExchanges: 30 }), messages)
    })
  )

  it.effect("one question with a long loop of tools behind it is compacted behind the question", () =>
    Effect.gen(function* () {
      const loop = Array.from({ length: 40 }, (_, at) => [
        calls([`c${at}`, "look", { at }]),
        result(`c${at}`, "look", long(`seen ${at}`, 2_000))
      ]).flat()
      const messages = [...talk(10), user("the newest task"), ...loop]
      const { compact } = engine()
      const once = yield* compact(messages, { reason: "manual" })
      const compacted = yield* compact(once, { reason: "manual" })
      assert.strictEqual(compacted.filter((message) => SummaryText.findSummary(message) !== undefined).length, 1)
      assert.isBelow(compacted.length, once.length + 1)
      assert.isTrue(pairsAreWhole(compacted))
      assert.include(compacted.map(textOf), "the newest task")
      assert.isBelow(compacted.length, messages.length)
    })
  )

  it.effect("the second note is the first one brought up to date; the focus is named (case 64)", () =>
    Effect.gen(function* () {
      let count = 0
      const { asked, compact } = engine(() => Effect.sync(() => `note ${++count}`))
      const first = yield* compact(talk(30))
      const second = yield* compact([...first, ...talk(30).slice(1)], { reason: "manual", focus: "the tests" })
      assert.include(
        asked[1],
        "PREVIOUS NOTE, to be brought up to date with the messages: keep what still holds, move what was done, drop what is obsolete.\n\nnote 1"
      )
      assert.include(asked[1], "The user asked to keep the detail about: the tests.")
      assert.deepStrictEqual(
        second.flatMap((message) => SummaryText.findSummary(message) ?? []),
        ["note 2"]
      )
    })
  )

  it.effect("keys are in neither the question nor the note", () =>
    Effect.gen(function* () {
      const key = `sk-ant-api03-${"k".repeat(40)}`
      const { asked, compact } = engine(() => Effect.succeed(`remember ${key}`))
      const compacted = yield* compact([
        system,
        user("a"),
        says("b"),
        user("c"),
        user(`my key is ${key}`),
        ...talk(30).slice(1)
      ])
      assert.notInclude(asked.join(""), "kkkkkkkk")
      assert.notInclude(compacted.flatMap((message) => SummaryText.findSummary(message) ?? []).join(""), "kkkkkkkk")
    })
  )
})

describe("when it is done", () => {
  it.effect("shortening is all where it is enough: no model is asked", () =>
    Effect.gen(function* () {
      const loop = Array.from({ length: 60 }, (_, at) => [
        calls([`c${at}`, "look", { at }]),
        result(`c${at}`, "look", long(`seen ${at}`, 2_000))
      ]).flat()
      const { asked, compact } = engine()
      const pruned = yield* compact([system, user("task"), ...loop], { tokens: 32_000 })
      assert.strictEqual(asked.length, 0)
      assert.strictEqual(pruned.length, loop.length + 2)
      assert.isBelow(Split.estimateTotalTokens(pruned), 20_000)
    })
  )

  it.effect("a short conversation is left alone", () =>
    Effect.gen(function* () {
      const messages = talk(3)
      const { asked, compact } = engine()
      assert.strictEqual(yield* compact(messages), messages)
      assert.strictEqual(asked.length, 0)
    })
  )

  it.effect("after two that saved less than a tenth none is made until somebody asks (case 67)", () =>
    Effect.gen(function* () {
      const { asked, compact } = engine(() => Effect.succeed("n".repeat(90_000)))
      const messages = talk(30)
      yield* compact(messages)
      yield* compact(messages)
      yield* compact(messages)
      assert.strictEqual(asked.length, 2)
      yield* compact(messages, { reason: "manual" })
      assert.strictEqual(asked.length, 3)
    })
  )

  it.effect("which counts for the conversation, whose session is another one after each", () =>
    Effect.gen(function* () {
      const { asked, compact } = engine(() => Effect.succeed("n".repeat(90_000)))
      const of = (id: string) => ({ sessionId: SessionId.make(id), conversationId: context.sessionId })
      for (const id of ["s", "s2", "s3"]) yield* compact(talk(30), of(id))
      assert.strictEqual(asked.length, 2)
    })
  )

  it.effect("without a note the conversation stays and the user is told; after a pause it is tried again", () =>
    Effect.gen(function* () {
      const failure = AiError.make({
        module: "M",
        method: "m",
        reason: new AiError.InternalProviderError({ description: "it is down" })
      })
      const { asked, compact, told } = engine(() => Effect.fail(failure))
      const messages = talk(30)
      assert.strictEqual(yield* compact(messages), messages)
      assert.strictEqual(yield* compact(messages), messages)
      assert.strictEqual(asked.length, 1)
      assert.match(told.join(), /^the conversation could not be summarised, so it stays as it is: .*it is down/)
      yield* TestClock.adjust("61 seconds")
      yield* compact(messages)
      assert.strictEqual(asked.length, 2)
    })
  )

  it.effect("without a model for it the pause is ten minutes; a refused conversation is shortened all the same", () =>
    Effect.gen(function* () {
      const { asked, compact } = engine(() => Effect.fail(new ConfigError({ path: "auxiliary", message: "no model" })))
      const loop = Array.from({ length: 30 }, (_, at) => [
        calls([`c${at}`, "look", { at }]),
        result(`c${at}`, "look", long(`seen ${at}`))
      ]).flat()
      const refused = yield* compact([system, user("task"), ...loop], { reason: "context_overflow" })
      assert.isBelow(Split.estimateTotalTokens(refused), 10_000)
      yield* TestClock.adjust("9 minutes")
      yield* compact(talk(30))
      assert.strictEqual(asked.length, 1)
      yield* TestClock.adjust("61 seconds")
      yield* compact(talk(30))
      assert.strictEqual(asked.length, 2)
    })
  )

  it("the trigger is half of the window, whatever its size", () => {
    const { service } = engine()
    assert.deepStrictEqual(
      [8_000, 200_000].map((window) => service.trigger?.(window)),
      [4_000, 100_000]
    )
    assert.strictEqual(service.leastMessages, 24)
  })
})

describe("a note that failed", () => {
  it.effect("is not requested again by the next program that continues the conversation", () =>
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      let asked = 0
      const next = Effect.map(SummaryPauses.openFile(home), (pauses) =>
        Compaction.make(
          { protectLast: 4 },
          () =>
            Effect.suspend(() => {
              asked++
              return Effect.fail(new ConfigError({ path: "auxiliary.compression", message: "no model" }))
            }),
          { pauses }
        )
      )
      const request: Request = { ...context, messages: talk(30), window: 40_000, reason: "threshold" }
      for (const _ of ["this program", "the next"])
        assert.strictEqual(yield* (yield* next).compact(request), request.messages)
      assert.strictEqual(asked, 1)
      yield* TestClock.adjust("11 minutes")
      yield* (yield* next).compact(request)
      assert.strictEqual(asked, 2)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
