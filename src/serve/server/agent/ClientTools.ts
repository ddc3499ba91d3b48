/**
 * Tools that a caller of the server defines and runs itself. A call of such a tool is returned to the caller, and the
 * run waits for the result.
 *
 * **Details**
 *
 * The client tools of a session form a separate toolset that takes precedence over all others. It is available only to
 * runs of this session, and not to their sub-agents. Calls of one answer are made concurrently. If a result does not
 * arrive in time, the model receives a failure.
 *
 * **Gotchas**
 *
 * The caller decides what its tools may do: they require no approval here. A script run by `execute_code` cannot call
 * them. The script would wait for the result, but the caller receives a call only when the model waits for nothing
 * else.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Ids from "../../../base/domain/Ids.ts"
import type { Registry } from "../../../base/domain/Secrets.ts"
import { ToolFailed, type ToolOutput } from "../../../base/domain/ToolOutput.ts"
import * as Annotations from "../../../tools/Annotations.ts"
import { ConversationHistory } from "../../../tools/ToolContext.ts"
import { callerPrefix, type Selection } from "../../../tools/ToolRegistry.ts"
import { type BoundTool, fromBound, type Toolset } from "../../../tools/Toolset.ts"

/** A tool that the caller defines. */
export interface ClientTool {
  readonly name: string
  readonly description: string
  /** JSON Schema of the tool's arguments. */
  readonly parameters: Readonly<Record<string, Schema.Json>>
}

/** A call that waits for a result from the caller. */
export interface ClientCall {
  /**
   * Id under which the caller knows the call, unique on the server. Ids chosen by models may repeat between
   * conversations.
   */
  readonly id: string
  /** Id of the call in the run. */
  readonly callId: string
  readonly name: string
  /** JSON. */
  readonly arguments: string
}

/** Result of a call, as the caller supplied it. */
export interface ClientResult extends ToolOutput {
  readonly output: string
}

/** Time within which the caller must supply a result. */
const patience = Duration.minutes(10)

/** The caller's tool calls in one session. */
export interface ClientCalls {
  /** Returns the waiting calls, the oldest first. */
  readonly waiting: () => ReadonlyArray<ClientCall>
  /** Completes as soon as another call waits. */
  readonly arrived: Effect.Effect<void>
  /** Supplies the result of a call. Returns false if the call is not waiting. */
  readonly answer: (id: string, result: ClientResult) => Effect.Effect<boolean>
  /** Fails all waiting calls, because the caller continued without answering them. */
  readonly abandon: Effect.Effect<void>
  /** Makes the session's toolset from the caller's tools. */
  readonly toolset: (tools: ReadonlyArray<ClientTool>) => Toolset
}

/** Selects the chosen tools and the tools of this session's caller, but not the tools of other callers. */
export const selectTools = (session: string, chosen: Selection): Selection => ({
  ...chosen,
  toolset: (name) =>
    name.startsWith(callerPrefix) ? name === callerPrefix + session : chosen.toolset?.(name) !== false,
  ofRunAlone: (name) => name.startsWith(callerPrefix) || chosen.ofRunAlone?.(name) === true
})

/** Selects the chosen tools without any caller's tools. */
export const excludeClients = (chosen: Selection): Selection => selectTools("", chosen)

/** Makes the client calls of a session. Known secrets are removed from the arguments that are sent to the caller. */
export const make = (session: string, secrets: Registry): ClientCalls => {
  const open = new Map<
    string,
    { readonly call: ClientCall; readonly result: Deferred.Deferred<ClientResult, ToolFailed> }
  >()
  let next = Deferred.makeUnsafe<void>()

  const makeToolFailure = (tool: string, message: string): ToolFailed =>
    new ToolFailed({ tool, phase: "handler", message })

  const makeRunner =
    ({ name }: ClientTool): BoundTool["run"] =>
    (params, callId) =>
      Effect.gen(function* () {
        // The caller receives calls together with the model's answer, which is not sent while a script waits.
        if ((yield* ConversationHistory) === undefined)
          return yield* makeToolFailure(
            name,
            `A script cannot call ${name}: it is a tool of the client. Call it directly.`
          )
        const id = `call_${yield* Ids.makeHex(24)}`
        const result = yield* Deferred.make<ClientResult, ToolFailed>()
        open.set(callId, { call: { id, callId, name, arguments: secrets.mask(JSON.stringify(params)) }, result })
        const arrived = next
        next = Deferred.makeUnsafe<void>()
        yield* Deferred.succeed(arrived, undefined)
        return yield* Effect.timeoutOrElse(Deferred.await(result), {
          duration: patience,
          orElse: () =>
            Effect.fail(makeToolFailure(name, `The client returned no result within ${Duration.format(patience)}.`))
        })
      }).pipe(Effect.ensuring(Effect.sync(() => open.delete(callId))))

  return {
    waiting: () => Array.from(open.values(), ({ call }) => call),
    arrived: Effect.suspend(() => Deferred.await(next)),
    answer: (id, result) => {
      const found = Array.from(open.values()).find(({ call }) => call.id === id)
      return found === undefined ? Effect.succeed(false) : Effect.as(Deferred.succeed(found.result, result), true)
    },
    abandon: Effect.suspend(() =>
      Effect.forEach(
        Array.from(open.values()),
        ({ call, result }) =>
          Deferred.fail(result, makeToolFailure(call.name, "The client went on without a result of this call.")),
        { discard: true }
      )
    ),
    toolset: (tools) => {
      const bound = tools.map((given): BoundTool => {
        const tool = Tool.dynamic(given.name, { description: given.description, parameters: { ...given.parameters } })
        return {
          toolset: callerPrefix + session,
          tool,
          definition: { name: given.name, description: given.description, parameters: given.parameters },
          // Marked read-only, so that the calls of one answer run in parallel.
          facts: {
            ...Annotations.readFacts(tool),
            readonly: true,
            foreign: true,
            timeout: Duration.sum(patience, Duration.seconds(5))
          },
          run: makeRunner(given)
        }
      })
      return fromBound(
        callerPrefix + session,
        bound.map(({ tool }) => tool),
        Effect.succeed(bound)
      )
    }
  }
}
