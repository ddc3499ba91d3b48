// Runs engines of compaction over long conversations, and says what they still know at the end.
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { SessionId, TaskId, TurnId } from "../../src/base/domain/Ids.ts"
import * as Compaction from "../../src/tools/prompt/Compaction.ts"
import * as Split from "../../src/tools/prompt/compaction/Split.ts"
import * as Json from "../../src/base/domain/Json.ts"
import { type Fact, kinds, type Scenario, scenarios, scripted, scriptedNote } from "./compactionScenarios.ts"

/** Tokens of the window of the model that the conversations are compacted for. */
export const window = 48_000

const system = Prompt.systemMessage({ content: `You are an agent. ${"Rules of the house. ".repeat(200)}` })
const ids = {
  sessionId: SessionId.make("evaluation"),
  taskId: TaskId.make("evaluation"),
  turnId: TurnId.make("evaluation")
}

/** An engine with its bounds. */
export interface Setup {
  readonly name: string
  readonly settings: Compaction.Settings
  readonly provider?: Compaction.ProviderCompaction
}

const saidIn = (messages: ReadonlyArray<Prompt.Message>): string =>
  messages
    .map((message) =>
      typeof message.content === "string"
        ? message.content
        : message.content
            .map((part) =>
              part.type === "text"
                ? part.text
                : part.type === "tool-call"
                  ? JSON.stringify(part.params)
                  : part.type === "tool-result"
                    ? Json.toText(part.result)
                    : ""
            )
            .join("\n")
    )
    .join("\n")

/** A provider whose item is a note that only it can read. */
const sealing: Compaction.ProviderCompaction = {
  ability: Effect.succeed("item"),
  compact: ({ messages }) => {
    const texts = messages.flatMap((message): ReadonlyArray<string> => {
      if (typeof message.content === "string") return []
      return message.content.flatMap((part) => {
        switch (part.type) {
          case "text": {
            const item = itemOf(part)
            return [item ?? `${message.role === "user" ? "USER" : "ASSISTANT"}: ${part.text}`]
          }
          case "tool-call":
            return [`CALL of ${part.name}: ${JSON.stringify(part.params)}`]
          case "tool-result":
            return [`RESULT of ${part.name}: ${Json.toText(part.result)}`]
          default:
            return []
        }
      })
    })
    const earlier = texts.filter((text) => text.startsWith("## ")).join("\n")
    return Effect.succeed(
      scriptedNote(`${earlier}\nMESSAGES:\n\n${texts.filter((text) => !text.startsWith("## ")).join("\n\n")}`, 4_000)
    )
  }
}

const itemOf = (part: Prompt.Part): string | undefined =>
  Json.readString(Json.readFields(part.options["codex_responses"])["compaction"])

/** Text of a conversation for its model; items of a provider are opened. */
const known = (messages: ReadonlyArray<Prompt.Message>): string =>
  [
    saidIn(messages),
    ...messages.flatMap((message) =>
      typeof message.content === "string" ? [] : message.content.flatMap((part) => itemOf(part) ?? [])
    )
  ].join("\n")

export const setups: ReadonlyArray<Setup> = [
  { name: "compressor", settings: {} },
  { name: "compressor, threshold 0.75", settings: { threshold: 0.75 } },
  { name: "compressor, target_ratio 0.1", settings: { targetRatio: 0.1 } },
  { name: "compressor, target_ratio 0.6", settings: { targetRatio: 0.6 } },
  { name: "compressor, protect_first_n 0", settings: { protectFirst: 0 } },
  { name: "compressor, protect_last_n 4", settings: { protectLast: 4 } },
  { name: "responses_compact", settings: { engine: "responses_compact" }, provider: sealing }
]

/** Outcome of one conversation. */
export interface Outcome {
  readonly compactions: number
  /** Tokens of the conversation, and of what is left of it at the end. */
  readonly tokens: { readonly whole: number; readonly left: number }
  readonly lost: ReadonlyArray<Fact>
  /** Facts whose own message is still there word for word: they were not put to the test. */
  readonly untested: ReadonlyArray<Fact>
  /** System prompt and protected first messages have the same bytes after each compaction. */
  readonly isHeadSame: boolean
  /** Newest messages are the same objects after each compaction. */
  readonly isTailSame: boolean
}

/** Lets a conversation grow as a run does, compacting it before each call of the model that it is too large for. */
export const evaluate = Effect.fnUntraced(function* (
  { provider, settings }: Setup,
  { facts, messages }: Scenario
): Effect.fn.Return<Outcome> {
  const engine = Compaction.make(settings, scripted, { provider })
  const limit = engine.trigger?.(window) ?? Infinity
  const head = 1 + (settings.protectFirst ?? 3)
  let live: ReadonlyArray<Prompt.Message> = [system]
  let compactions = 0
  let isHeadSame = true
  let isTailSame = true
  for (const [index, message] of messages.entries()) {
    live = [...live, message]
    const isBeforeCall = messages[index + 1]?.role === "assistant" || index === messages.length - 1
    const tokens = Split.estimateTotalTokens(live)
    if (!isBeforeCall || tokens < limit) continue
    const before = live
    live = yield* engine.compact({ ...ids, messages: before, window, reason: "threshold", tokens })
    if (live === before) continue
    compactions++
    const bytes = (of: ReadonlyArray<Prompt.Message>): string => JSON.stringify(of.slice(0, head))
    isHeadSame &&= bytes(live) === bytes(before)
    isTailSame &&= [1, 2, 3].every((back) => live.at(-back) === before.at(-back))
  }
  const text = known(live)
  const kept = new Set(live)
  return {
    compactions,
    tokens: { whole: Split.estimateTotalTokens(messages), left: Split.estimateTotalTokens(live) },
    lost: facts.filter((fact) => !text.includes(fact.text)),
    untested: facts.filter((fact) =>
      messages.every((message) => !saidIn([message]).includes(fact.text) || kept.has(message))
    ),
    isHeadSame,
    isTailSame
  }
})

/** All engines over all conversations. */
export const table = Effect.forEach(setups, (setup) =>
  Effect.map(
    Effect.forEach(scenarios, (scenario) => evaluate(setup, scenario)),
    (outcomes) => ({
      name: setup.name,
      outcomes,
      facts: kinds.map((kind) => {
        const all = scenarios.flatMap(({ facts }) => facts).filter((fact) => fact.kind === kind).length
        return {
          kind,
          all,
          kept: all - outcomes.flatMap(({ lost }) => lost).filter((fact) => fact.kind === kind).length
        }
      })
    })
  )
)
