/**
 * Starts a run of the agent, or resumes a run whose process died at the point recorded in the store.
 *
 * **Details**
 *
 * The session store is the log of the run: an answer is stored before its tool calls run, the intent of a call before
 * the call starts, and a result before the next model call. A restarted run therefore does not repeat stored answers or
 * results. Calls that did not start are run. A call that may have happened is reported to the model as such, unless its
 * tool is annotated `Idempotent`; such a call is run again. A run has no other log of its steps. It uses the same agent
 * as every other program.
 *
 * If a process died after it stored the final answer and before it reported the outcome, the answer is found in the run
 * record or as the last message.
 *
 * Source: `ARCHITECTURE.md` §4 (`store.begin`) and §7 (a call that was running when the process died).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { AgentError } from "../../base/domain/AgentError.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import type { RunResult } from "../../base/domain/RunEvent.ts"
import { Agent } from "../../agent/Agent.ts"
import { waitForSession } from "../../agent/BusySession.ts"
import type { RunOptions, StartOptions } from "../../agent/RunInput.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { SessionStore } from "../../store/SessionStorePort.ts"
import * as TextMarks from "../../store/TextMarks.ts"
import type { Outcome, Suspended } from "./RunForms.ts"
import type { Handler, Work } from "./RunWorkflow.ts"
import { deliverSteering, type SteeringSource } from "./Steering.ts"

/** Input of a run that may have been started before. */
export interface Input extends Omit<StartOptions, "sessionId" | "goesOn" | "openCalls" | "onInterrupt"> {
  readonly sessionId: string
  /** Number of messages in the session before the run. */
  readonly firstPosition: number
  /** True if the run was never started, so that the store has no data of it. */
  readonly isFirst?: boolean | undefined
}

/** Result of a run, limited to the fields that other processes need. */
export type FinishedRun = Pick<RunResult, "exit" | "text" | "usage" | "cost"> & { readonly sessionId: string }

/** Prompt with which the model continues an answer that reached its output limit before the process died. */
const goOn = "Go on exactly where your last answer was cut off."

/** Reads the state of the last run in a session from the store. */
const readRunState = Effect.fnUntraced(function* ({
  firstPosition,
  sessionId
}: Pick<Input, "firstPosition" | "sessionId">) {
  const store = yield* SessionStore
  const id = yield* store.newest(SessionId.make(sessionId))
  const session = Option.getOrUndefined(yield* store.get(id))
  // If the session was compacted, it continues in another session, and the prompt of this run is already stored.
  const messages = session === undefined ? [] : yield* store.messages(id)
  const seen = { sessionId: id, messages: messages.length }
  if (session === undefined || (id === sessionId && messages.length <= firstPosition))
    return { _tag: "New", seen } as const
  const last = messages.at(-1)
  if (last === undefined || last.role !== "assistant" || Conversation.listOpenCalls(messages).length > 0)
    return { _tag: "Open", seen } as const
  const record = yield* RunRecord
  const entries = yield* Stream.runCollect(
    record.read({ sessionId: id, kinds: ["RunStarted", "AttemptEnded", "RunEnded"] })
  )
  const began = entries.findLastIndex(({ event }) => event._tag === "RunStarted")
  const events = entries.slice(began).map(({ event }) => event)
  for (const event of events) {
    if (event._tag !== "RunEnded" || event.exit === "failed" || event.exit === "interrupted") continue
    return {
      _tag: "Ended",
      finished: {
        sessionId: id,
        exit: event.exit,
        text: event.text ?? Conversation.readText(last),
        usage: event.usage,
        cost: event.cost
      }
    } as const
  }
  const answered = events.findLast((event) => event._tag === "AttemptEnded")
  const reason = answered?._tag === "AttemptEnded" ? answered.finishReason : undefined
  if (reason === "length" || reason === "pause") return { _tag: "Cut", seen } as const
  const finished: FinishedRun = {
    sessionId: id,
    exit: "text_response",
    text: Conversation.readText(last),
    usage: session.usage,
    cost: session.cost
  }
  return { _tag: "Ended", finished } as const
})

/** Runs the agent until the run ends. Work that is already done is not repeated. */
export const run = Effect.fnUntraced(function* ({
  firstPosition,
  isFirst = false,
  ...given
}: Input): Effect.fn.Return<FinishedRun, AgentError, Agent | SessionStore | RunRecord> {
  const agent = yield* Agent
  // If the run is interrupted here, it continues on another runner.
  const input = { ...given, onInterrupt: "leave" as const }
  const runOnce = Effect.fnUntraced(function* (hasWaited: boolean) {
    const { sessionId } = input
    const state =
      isFirst && !hasWaited
        ? { _tag: "New" as const, seen: undefined }
        : yield* readRunState({ firstPosition, sessionId })
    switch (state._tag) {
      case "New":
        return yield* agent.run({ ...input, expectedSession: state.seen })
      case "Open":
        return yield* agent.run({
          ...input,
          sessionId: state.seen.sessionId,
          expectedSession: state.seen,
          goesOn: true,
          openCalls: "run"
        })
      case "Cut":
        return yield* agent.run({
          ...input,
          sessionId: state.seen.sessionId,
          expectedSession: state.seen,
          prompt: goOn
        })
      case "Ended":
        return state.finished
    }
  })
  const { cost, exit, sessionId, text, usage } = yield* waitForSession(runOnce)
  return { sessionId, exit, text, usage, cost }
})

const TurnInput = Schema.Struct({
  agent: Schema.optionalKey(Schema.String),
  prompt: Schema.String,
  /** Id of the prompt in the inbox of the session, if another process sent it to an earlier turn. */
  received: Schema.optionalKey(Schema.String),
  source: Schema.String,
  systemPrompt: Schema.optionalKey(Schema.String),
  cwd: Schema.optionalKey(Schema.String),
  tenant: Schema.optionalKey(Schema.String),
  maxIterations: Schema.optionalKey(Schema.Int),
  budget: Schema.optionalKey(
    Schema.Struct({
      tokens: Schema.optionalKey(Schema.Finite),
      dollars: Schema.optionalKey(Schema.Finite),
      seconds: Schema.optionalKey(Schema.Finite),
      toolCalls: Schema.optionalKey(Schema.Finite)
    })
  ),
  seed: Schema.optionalKey(Schema.Int),
  questions: Schema.optionalKey(
    Schema.Struct({
      unanswered: Schema.optionalKey(Schema.Literals(["deny", "suspend"])),
      expiresAfter: Schema.optionalKey(Schema.Finite),
      audience: Schema.optionalKey(Schema.String)
    })
  )
})
const decodeTurn = Schema.decodeUnknownEffect(Schema.fromJsonString(TurnInput))

/** Tags of failures that another attempt cannot fix. */
const lasting: ReadonlySet<string> = new Set(["InvalidInput", "ConfigError", "SessionNotFound"])

const toFailedOutcome = (error: { readonly _tag: string; readonly message: string }): Outcome => ({
  status: "failed",
  message: error.message.split("\n", 1)[0] ?? error._tag,
  isPassing: !lasting.has(error._tag)
})

/** Returns the end of a run that waits: the time at which it needs no answer, if its questions have one. */
export const readSuspension = Effect.fnUntraced(function* (sessionId: string) {
  const stored = yield* (yield* SessionStore).listQuestions({
    sessionId: SessionId.make(sessionId),
    limit: Number.MAX_SAFE_INTEGER
  })
  const times = stored.flatMap(({ question: { expiresAt, wakeAt } }) => [expiresAt ?? [], wakeAt ?? []].flat())
  const suspended: Suspended = { status: "suspended", ...(times.length === 0 ? {} : { wakeAt: Math.min(...times) }) }
  return suspended
})

/** An agent opened for a turn. */
export interface OpenedAgent {
  readonly services: Context.Context<Agent | SessionStore | RunRecord>
  /** Tools of the turn. Defaults to the agent's tools. */
  readonly tools?: RunOptions["tools"]
}

/** Opens the agent with the given digest, or the runner's own agent, for the duration of a turn. */
export type AgentOpener = (
  agent: string | undefined
) => Effect.Effect<OpenedAgent, { readonly _tag: string; readonly message: string }, Scope.Scope>

/** Asks the run of a session to stop, until it does. */
const stopRun = (sessionId: string): Effect.Effect<never, never, Agent | SessionStore> =>
  Effect.gen(function* () {
    const store = yield* SessionStore
    const agent = yield* Agent
    const stop = Effect.flatMap(store.newest(SessionId.make(sessionId)), (id) => agent.stop(id))
    // A run that is just beginning has no session yet.
    yield* Effect.ignore(
      Effect.repeat(stop, { until: (isStopped) => isStopped, schedule: Schedule.spaced("100 millis") })
    )
    return yield* Effect.never
  })

/** Delivers the messages for a turn, if its agent has hooks. */
const startSteering = (
  services: Context.Context<never>,
  steering: SteeringSource | undefined,
  sessionId: string
): Effect.Effect<void, never, Scope.Scope | SessionStore> => {
  const hooks = Context.getOption(services, Hooks.Hooks)
  return steering === undefined || Option.isNone(hooks)
    ? Effect.void
    : deliverSteering(hooks.value, steering, sessionId)
}

/** Makes the handler that executes turns. `open` opens the agent of a turn. */
export const makeTurnHandler =
  (open: AgentOpener): Handler =>
  ({ cancelled = Effect.never, firstPosition, input, sessionId, starts, steering }: Work) =>
    decodeTurn(input).pipe(
      Effect.map(({ prompt, received, ...options }) => ({
        ...options,
        prompt: received === undefined ? prompt : TextMarks.markPrompt(prompt, received)
      })),
      Effect.flatMap(({ agent, ...options }) =>
        Effect.flatMap(open(agent), ({ services, tools }) =>
          startSteering(services, steering, sessionId).pipe(
            Effect.andThen(run({ ...options, tools, sessionId, firstPosition, isFirst: starts === 1 })),
            Effect.raceFirst(Effect.andThen(cancelled, stopRun(sessionId))),
            Effect.flatMap((finished): Effect.Effect<Outcome | Suspended, AgentError, SessionStore> =>
              finished.exit === "suspended"
                ? readSuspension(finished.sessionId)
                : Effect.succeed({ status: "finished", output: JSON.stringify(finished) })
            ),
            // Inside of `services`, which may contain the scope of the runner.
            Effect.scoped,
            Effect.provideContext(services)
          )
        )
      ),
      Effect.catch((error) => Effect.succeed(toFailedOutcome(error))),
      Effect.scoped
    )

/**
 * The handler that executes turns with the agent and the store in the context, and a function that counts the messages
 * in a session.
 */
export const turns = Effect.gen(function* () {
  const services = yield* Effect.context<Agent | SessionStore | RunRecord>()
  const store = Context.get(services, SessionStore)
  const handler = makeTurnHandler((agent) =>
    agent === undefined
      ? Effect.succeed({ services })
      : Effect.fail({ _tag: "InvalidInput", message: "this runner takes no agents of submissions: leave out agent" })
  )
  const countMessages = (sessionId: string) =>
    Effect.map(
      store.get(SessionId.make(sessionId)),
      Option.match({ onNone: () => 0, onSome: ({ messageCount }) => messageCount })
    )
  const hasAnswers = Effect.fnUntraced(function* (sessionId: string) {
    const newest = yield* store.newest(SessionId.make(sessionId))
    const states = ["answered", "open"] as const
    const stored = yield* store.listQuestions({ sessionId: newest, states, limit: Number.MAX_SAFE_INTEGER })
    // Without open questions, another process continued the session with the answers.
    return stored.length === 0 || stored.some(({ state }) => state === "answered")
  })
  return { handler, messages: countMessages, hasAnswers }
})
