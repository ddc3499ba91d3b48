/**
 * Runs a tool call that was not made by a model. Like a model's call it passes hooks, middleware, guards and approvals,
 * but its result is returned instead of stored.
 *
 * Source: `hermes-contract.md` §3.5 (`dispatch_tool`); unlike there, no check is bypassed.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Prompt from "effect/ai/Prompt"
import { InvalidInput, type SessionStoreError, type TenantRefused } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import { makeApiRequestId } from "../hooks/Correlation.ts"
import { Hooks } from "../hooks/Hooks.ts"
import * as ResultText from "../tools/ResultText.ts"
import * as LoopGuard from "../tools/calls/LoopGuard.ts"
import * as ToolCalls from "../tools/ToolCalls.ts"
import { ToolContext } from "../tools/ToolContext.ts"
import { everything } from "../tools/ToolRegistry.ts"
import { resolveDirectory } from "./RunDirectory.ts"
import { Services } from "./Services.ts"

/** A tool call. `R` is the data that tools read from a run. */
export interface Call<R = never> {
  readonly name: string
  readonly args: unknown
  /**
   * Session of the call, which must exist. If absent, a new session that is not stored is used. The call itself is not
   * stored in the session.
   */
  readonly sessionId?: string | undefined
  /** Absolute working directory. Defaults to the workspace of the tenant, if it has one, and to the agent's. */
  readonly cwd?: string | undefined
  /** Tenant whose limits bound the model calls of the tool. */
  readonly tenant?: string | undefined
  /** Run data that tools read (`RunContext`). A tool that needs it fails without it. */
  readonly context?: Context.Context<R> | undefined
}

/** Result of the call. */
export interface Outcome {
  readonly output: unknown
  readonly isFailure: boolean
  /** Images or files that belong to the result. */
  readonly modelOutput?: Prompt.ToolResultPart["modelOutput"]
}

const makeRefusal = (error: string): Outcome => ({ output: JSON.stringify({ error }), isFailure: true })

/** Returns the session that a call is made for: an existing one, or a new one that is not stored. */
const resolveSession = Effect.fnUntraced(function* (
  wanted: string | undefined
): Effect.fn.Return<Ids.SessionId, InvalidInput | SessionStoreError, Services> {
  if (wanted === undefined) return yield* Ids.makeSessionId
  const { store } = yield* Services
  const id = Ids.SessionId.make(wanted)
  const known = yield* store.get(id)
  if (Option.isSome(known)) return id
  return yield* new InvalidInput({
    message: `Unknown session_id ${JSON.stringify(wanted)}. Leave it out to call the tool outside of a session.`
  })
})

/** Runs a call. A call of an unknown tool returns a failed outcome. */
export const callTool = Effect.fnUntraced(function* ({
  args,
  cwd,
  name,
  sessionId: wanted
}: Omit<Call, "context" | "tenant">): Effect.fn.Return<
  Outcome,
  InvalidInput | SessionStoreError | TenantRefused,
  Services
> {
  const { approvals, interceptors, registry, settings } = yield* Services
  const tools = yield* registry.snapshot(settings.tools ?? everything)
  if (tools.get(name) === undefined) return makeRefusal(`there is no tool ${name}; there are ${tools.names.join(", ")}`)
  const directory = yield* resolveDirectory(cwd, settings.cwd)
  const sessionId = yield* resolveSession(wanted)
  const taskId = Ids.TaskId.make(sessionId)
  const turnId = yield* Ids.makeTurnId(sessionId, taskId)
  const id = `call_${yield* Ids.makeHex(12)}`
  return yield* ToolCalls.runOne(
    {
      tools,
      interceptors,
      guard: LoopGuard.make(settings.loopGuard ?? LoopGuard.defaults),
      approvals,
      limits: settings.resultLimits ?? ResultText.defaultLimits,
      messages: [],
      ids: { sessionId, taskId, turnId, apiRequestId: makeApiRequestId(turnId, 0, 0) },
      emit: undefined
    },
    Prompt.toolCallPart({ id, name, params: args, providerExecuted: false })
  ).pipe(
    Effect.provideService(Hooks, interceptors.hooks),
    Effect.provideService(ToolContext, { sessionId, taskId, turnId, cwd: directory })
  )
})

/** Returns a failed outcome if the call could not be made. */
export const refuseOnFailure = <E extends { readonly message: string }, R>(
  call: Effect.Effect<Outcome, E, R>
): Effect.Effect<Outcome, never, R> => Effect.catch(call, ({ message }) => Effect.succeed(makeRefusal(message)))
