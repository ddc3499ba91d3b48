// Runs that are killed or interrupted at any moment and resumed, over the wire in all four protocols: what the model
// reads of each call is true. `HERMES_TEST_KILLS` says how many of each kind (`npm run test:kill`).
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import { readFileSync } from "node:fs"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as StoredRuns from "../../src/observe/StoredRuns.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as SessionChain from "../../src/store/SessionChain.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { runScript } from "../support/runScript.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"

const kills = Number(process.env["HERMES_TEST_KILLS"] ?? 4)
const perProtocol = Math.ceil(kills / Object.keys(protocols).length)
const seed = Number(process.env["HERMES_TEST_SEED"] ?? Date.now() % 100_000)

/** Numbers from 0 to 1, the same for the same seed. */
const random = (start: number) => {
  let state = start >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 0x1_0000_0000
  }
}

const call = (id: string, name: string) => ({ id, name, args: JSON.stringify({ path: id }) })

/** Two calls side by side, two after one another, an answer. */
const turns: ReadonlyArray<WireTurn> = [
  { text: "now", calls: [call("a", "note"), call("b", "note")] },
  { text: "then", calls: [call("c", "step"), call("d", "step")] },
  { text: "done" }
]
/** Lines that a whole run prints: that it is ready, and two for each call. */
const lines = 9

const toldOf = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<readonly [id: string, told: unknown]> =>
  messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.result] as const] : []))
      : []
  )

const count = (text: string, part: string): number => text.split(part).length - 1

/**
 * The record has no damaged row and every message; a killed run has no end, and its calls are told as the model was
 * told of them.
 */
const recordIsTrue = Effect.fnUntraced(function* (
  path: string,
  signal: "SIGKILL" | "SIGINT",
  messages: ReadonlyArray<Prompt.Message>,
  told: ReturnType<typeof toldOf>
) {
  const { ends, tree, unread } = yield* Effect.provide(
    Effect.gen(function* () {
      const session = yield* Effect.fromOption(
        yield* SessionStore.SessionStore.use((store) => store.get(SessionId.make("s")))
      )
      const record = yield* RunRecord.RunRecord
      const ends = yield* Stream.runCollect(record.read({ kinds: ["RunEnded"] }))
      return { ends, tree: yield* StoredRuns.read(session), unread: yield* record.unread() }
    }),
    SessionStore.layerSqlite({ path }),
    { local: true }
  )
  assert.deepStrictEqual(unread, { newer: 0, damaged: 0, partial: 0 })
  const conversation = tree.conversation("s")
  assert.deepStrictEqual(
    conversation.map(({ position }) => position),
    messages.map((_, position) => position)
  )
  assert.deepStrictEqual(JSON.stringify(conversation.map(({ message }) => message)), JSON.stringify(messages))
  const known = tree.roots.filter(({ end }) => end !== undefined)
  assert.strictEqual(known.length, ends.length)
  if (signal === "SIGINT")
    assert.deepStrictEqual(
      tree.roots.filter(({ end }) => end === undefined),
      []
    )
  const calls = new Map(
    tree.roots.flatMap(({ steps }) => steps.flatMap((step) => step.calls.map((call) => [call.id, call] as const)))
  )
  for (const [id, what] of told) {
    const call = calls.get(id)
    assert.strictEqual(call?.result?.result, what, id)
    if (what === Conversation.mayHaveHappenedResult) assert.isTrue(call?.end?.ran, id)
    if (what === Conversation.cancelledResult) assert.isFalse(call?.end?.ran, id)
  }
})

const trial = Effect.fnUntraced(function* (
  mode: keyof typeof protocols,
  signal: "SIGKILL" | "SIGINT",
  { delay, line }: { readonly delay: number; readonly line: number }
) {
  const directory = yield* temporaryDirectory
  const [path, traces] = [`${directory}/state.db`, `${directory}/traces`]
  let served = 0
  let isResumed = false
  const server = yield* HttpServer.make((_, response) => {
    const turn = isResumed ? { text: "looked" } : (turns[Math.min(served++, turns.length - 1)] ?? {})
    HttpServer.json(response, 200, protocols[mode].whole(turn))
  })
  const run = (prompt: string, onLine?: Parameters<typeof runScript>[2]) =>
    runScript("killedRun.ts", [mode, server.url, path, traces, "s", prompt], onLine)

  let seen = 0
  yield* run("work", (_, child) => {
    if (++seen === line) setTimeout(() => child.kill(signal), delay)
  })
  isResumed = true
  const resumed = yield* run("go on")
  assert.deepStrictEqual([resumed.lines.at(-1), resumed.code], ["exit text_response", 0], resumed.errors)

  const messages = yield* Effect.provide(
    SessionStore.SessionStore.use((store) => store.messages(SessionId.make("s"))),
    SessionStore.layerSqlite({ path }),
    { local: true }
  )
  const told = toldOf(messages)
  const left = readFileSync(traces, "utf8")
  // Nothing is lost, asked twice or run twice.
  assert.deepStrictEqual(
    told.map(([id]) => id).toSorted(),
    messages
      .flatMap(Conversation.listToolCalls)
      .map(({ id }) => id)
      .toSorted()
  )
  assert.deepStrictEqual(Conversation.listOpenCalls(messages), [])
  for (const [id, what] of told) {
    const [began, ended] = [count(left, `begin ${id}\n`), count(left, `end ${id}\n`)]
    assert.isAtMost(began, 1, `${id} ran twice`)
    if (what === `did ${id}`) assert.deepStrictEqual([began, ended], [1, 1], id)
    else if (what === Conversation.cancelledResult)
      assert.deepStrictEqual([began, ended], [0, 0], `${id} ran, and was told cancelled`)
    else assert.strictEqual(what, Conversation.mayHaveHappenedResult, id)
  }
  yield* recordIsTrue(path, signal, messages, told)
  // What ran without a result is told as such to the model, over the wire.
  const unknown = told.filter(([, what]) => what === Conversation.mayHaveHappenedResult)
  assert.strictEqual(count(server.requests.at(-1)?.body ?? "", "may have happened"), unknown.length)
}, Effect.scoped)

/** Steps of a conversation that is compacted. */
const steps = 14

const wordy = (step: number): WireTurn =>
  step < steps
    ? {
        text: `turn ${step}: ${"I wonder about it. ".repeat(120)}`,
        calls: [call(`s${step}a`, "note"), ...(step % 3 === 0 ? [call(`s${step}b`, "step")] : [])]
      }
    : { text: `answer after ${step} turns` }

/** A text of a message that no other one has. */
const markOf = (message: Prompt.Message | undefined): string => {
  const text = JSON.stringify(message?.content ?? "")
  return /turn \d+:|did s\d+[ab]|answer after \d+ turns|may have happened/u.exec(text)?.[0] ?? "work"
}

/** A conversation that is compacted every few steps, killed once and resumed. Returns how often it was compacted. */
const compactingTrial = Effect.fnUntraced(function* ({
  delay,
  line
}: {
  readonly delay: number
  readonly line: number
}) {
  const directory = yield* temporaryDirectory
  const [path, traces] = [`${directory}/state.db`, `${directory}/traces`]
  let served = 0
  let compactions = 0
  let bodies: Array<string> = []
  const server = yield* HttpServer.make(({ body, url }, response) => {
    if (!url.includes("chat/completions"))
      return HttpServer.json(response, 200, { data: [{ id: "m", context_length: 64_000 }] })
    const isSummary = body.includes("handoff note of a conversation")
    if (!isSummary) bodies.push(body)
    // The protocol's whole answer is an object.
    const whole = protocols.chat_completions.whole(
      isSummary ? { text: "## Active Task\nwork" } : wordy(served++)
    ) as object
    HttpServer.json(response, 200, {
      ...whole,
      usage: { prompt_tokens: Math.ceil(body.length / 4), completion_tokens: 10 }
    })
  })
  const run = (prompt: string, onLine?: Parameters<typeof runScript>[2]) =>
    runScript("killedRun.ts", ["chat_completions", server.url, path, traces, "s", prompt, "compacting"], onLine)
  const chain = Effect.provide(
    Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      const newest = yield* store.get(yield* store.newest(SessionId.make("s")))
      const sessions = Option.isNone(newest) ? [] : yield* SessionChain.readChain(newest.value)
      return yield* Effect.forEach(sessions, ({ id }) => store.messages(id))
    }),
    SessionStore.layerSqlite({ path }),
    { local: true }
  )

  let seen = 0
  yield* run("work", (text, child) => {
    if (text === "compacted") compactions++
    if (++seen === line) setTimeout(() => child.kill("SIGKILL"), delay)
  })
  const before = (yield* chain).at(-1) ?? []
  bodies = []
  const resumed = yield* run("go on", (text) => {
    if (text === "compacted") compactions++
  })
  assert.deepStrictEqual([resumed.lines.at(-1), resumed.code], ["exit text_response", 0], resumed.errors)

  // The first question of the resumed run has the last message that was stored, and the new one behind it.
  const [first = ""] = bodies
  assert.include(first, markOf(before.at(-1)))
  assert.match(first, /"content":"go on"\}\]/u)
  const sessions = yield* chain
  assert.include(markOf(sessions.at(-1)?.at(-1)), "answer after")
  const left = readFileSync(traces, "utf8")
  for (const messages of sessions) {
    assert.deepStrictEqual(Conversation.listOpenCalls(messages), [])
    for (const [id, what] of toldOf(messages)) {
      const [began, ended] = [count(left, `begin ${id}\n`), count(left, `end ${id}\n`)]
      assert.isAtMost(began, 1, `${id} ran twice`)
      if (what === `did ${id}`) assert.deepStrictEqual([began, ended], [1, 1], id)
      else if (what === Conversation.cancelledResult)
        assert.deepStrictEqual([began, ended], [0, 0], `${id} ran, and was told cancelled`)
      else assert.strictEqual(what, Conversation.mayHaveHappenedResult, id)
    }
  }
  // What was left out of the conversation is in the session before it.
  const told = new Set(sessions.flatMap(toldOf).map(([id]) => id))
  assert.deepStrictEqual(
    left
      .split("\n")
      .filter((text) => text.startsWith("begin "))
      .map((text) => text.slice(6))
      .filter((id) => !told.has(id)),
    []
  )
  return compactions
}, Effect.scoped)

describe("a conversation that is compacted", () => {
  it.live(
    "and killed at any moment goes on from its last stored message, and no call runs twice",
    () => {
      // Each starts two programs: few of them where there are few of all.
      const trials = kills < 10 ? 2 : kills
      const next = random(seed + 7)
      const moments = Array.from({ length: trials }, () => ({
        line: 1 + Math.floor(next() * steps * 3),
        delay: Math.floor(next() * 12)
      }))
      return Effect.gen(function* () {
        const compactions = yield* Effect.forEach(
          moments,
          (moment) =>
            Effect.onError(compactingTrial(moment), () =>
              Effect.logError(`HERMES_TEST_SEED=${seed}: ${JSON.stringify(moment)}`)
            ),
          { concurrency: 2 }
        )
        assert.isAbove(Math.min(...compactions), 0)
      })
    },
    300_000 + kills * 20_000
  )
})

const ways = [
  ["killed", "SIGKILL"],
  ["interrupted", "SIGINT"]
] as const

describe("a run", () => {
  for (const [at, mode] of (Object.keys(protocols) as ReadonlyArray<keyof typeof protocols>).entries()) {
    // Each starts two programs: where there are few of all, a protocol has one way, which the seed chooses.
    for (const [how, signal] of kills < 10 ? ways.filter((_, way) => way === (at + seed) % ways.length) : ways) {
      it.live(
        `that is ${how} at any moment is resumed with the truth about its calls (${mode})`,
        () => {
          const next = random(seed + mode.length * 31 + signal.length)
          const moments = Array.from({ length: perProtocol }, () => ({
            line: 1 + Math.floor(next() * lines),
            delay: Math.floor(next() * 9)
          }))
          return Effect.forEach(
            moments,
            (moment) =>
              Effect.onError(trial(mode, signal, moment), () =>
                Effect.logError(`HERMES_TEST_SEED=${seed}: ${JSON.stringify(moment)}`)
              ),
            { concurrency: 2 }
          )
        },
        300_000 + perProtocol * 20_000
      )
    }
  }
})
