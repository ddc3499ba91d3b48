/**
 * The toolset `memory`: notes about work and user that the model keeps across sessions.
 *
 * **Details**
 *
 * Entries are added, replaced or removed, one at a time or several as one atomic change (`operations`). A change that
 * does not fit is an error with the current entries, so that the model can shorten them. After three failures in one
 * turn the model is instructed to stop.
 *
 * **Example** (An agent with memory)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { mkdtempSync } from "node:fs"
 * import { tmpdir } from "node:os"
 * import { join } from "node:path"
 * import { Agent, Runtime } from "hermes-effect"
 * import { MemoryStore } from "hermes-effect/prompt"
 * import { MemoryTool } from "hermes-effect/tools/planning"
 *
 * const home = mkdtempSync(join(tmpdir(), "memory-"))
 *
 * const agent = Runtime.layer({ tools: [MemoryTool.toolset] }).pipe(
 *   Layer.provide(MemoryStore.layer({ directory: home, database: join(home, "state.db"), limits: { memory: 2_200 } })),
 *   Layer.provide(NodeServices.layer)
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), agent))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3 (`memory`).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { MemoryWrites } from "../../base/domain/MemoryProvider.ts"
import * as MemoryStore from "../prompt/MemoryStore.ts"
import { ToolContext } from "../ToolContext.ts"
import * as Toolset from "../Toolset.ts"

const maxFailures = 3
const maxTurns = 1_024

const Failure = Schema.Struct({
  success: Schema.Literal(false),
  error: Schema.String,
  current_entries: Schema.optionalKey(Schema.Array(Schema.String)),
  usage: Schema.optionalKey(Schema.String)
})

/** The tool `memory`. */
export const tool = Tool.make("memory", {
  description:
    "Your memory over sessions: target memory (default) for facts about this machine, projects and tools; target " +
    "user for who the user is and how they want things done. Save what stays true and useful: preferences, " +
    "corrections, conventions, lessons; not progress, results or what can be looked up. add needs content; replace " +
    "old_text and content; remove old_text. operations makes several changes, all or none, for instance to make " +
    "room. Entries show in the prompts of later sessions, not of this one.",
  parameters: Schema.Struct({
    action: Schema.optionalKey(Schema.Literals(["add", "replace", "remove"])),
    target: Schema.optionalKey(Schema.Literals(["memory", "user"])),
    content: Schema.optionalKey(Schema.String),
    old_text: Schema.optionalKey(Schema.String.annotate({ description: "A part that only this entry has" })),
    operations: Schema.optionalKey(Schema.Array(MemoryStore.Operation).annotate({ description: "In place of action" }))
  }),
  success: Schema.Struct({
    success: Schema.Literal(true),
    done: Schema.Literal(true),
    target: Schema.Literals(["memory", "user"]),
    usage: Schema.String,
    entry_count: Schema.Natural,
    message: Schema.String
  }),
  failure: Failure,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.Idempotent, true)

const toolkit = Toolkit.make(tool)

const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const store = yield* MemoryStore.MemoryStore
    const failures = new Map<string, number>()

    const failChange = (
      turn: string,
      error: string,
      details: { readonly current_entries?: ReadonlyArray<string>; readonly usage?: string } = {}
    ) =>
      Effect.suspend(() => {
        const count = (failures.get(turn) ?? 0) + 1
        failures.delete(turn)
        failures.set(turn, count)
        const [oldest] = failures.keys()
        if (failures.size > maxTurns && oldest !== undefined) failures.delete(oldest)
        return Effect.fail({
          success: false as const,
          error:
            count < maxFailures
              ? error
              : `${error}. This was failure ${count} of this turn: do not call memory again, go on with the task.`,
          ...details
        })
      })

    return {
      memory: Effect.fnUntraced(function* ({ action, content, old_text, operations, target = "memory" }) {
        const { sessionId, turnId } = yield* ToolContext
        const asked =
          operations ??
          (action === undefined
            ? []
            : [
                {
                  action,
                  ...(content === undefined ? {} : { content }),
                  ...(old_text === undefined ? {} : { old_text })
                }
              ])
        if (asked.length === 0) return yield* failChange(turnId, "nothing to do: give action, or operations")
        const { entries, limit } = yield* store
          .change(target, asked)
          .pipe(
            Effect.catchTags({
              ConfigError: ({ message }) => failChange(turnId, message),
              MemoryRefused: ({ entries, message }) =>
                failChange(turnId, message, entries === undefined ? {} : { current_entries: entries })
            })
          )
        const told = yield* MemoryWrites
        if (told !== undefined) {
          yield* Effect.forEach(
            asked,
            ({ action, content, old_text }) => told({ sessionId, action, target, content, oldText: old_text }),
            { discard: true }
          )
        }
        return {
          success: true as const,
          done: true as const,
          target,
          usage: MemoryStore.formatUsage(entries, limit),
          entry_count: entries.length,
          message: "Saved. It shows in the prompts of later sessions."
        }
      })
    }
  })
)

/** The toolset `memory`. */
export const toolset = Toolset.make("memory", toolkit, handlers)
