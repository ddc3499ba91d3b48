/**
 * Runs the agent for one turn of a live session: builds the input from the settings of the session, provides the
 * services that ask the user, and adds the instruction of the mode `plan`.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { Agent } from "../../agent/Agent.ts"
import type { RunInput, StartOptions } from "../../agent/RunInput.ts"
import { LiveMode, type PermissionMode } from "../../base/config/PermissionMode.ts"
import { type AgentError, InvalidInput, type SessionStoreError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import { type Answer, QuestionError } from "../../base/domain/Question.ts"
import type { RunResult } from "../../base/domain/RunEvent.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import * as TextMarks from "../../store/TextMarks.ts"
import { ApprovalPrompt } from "../../tools/approval/Approver.ts"
import { attended, InteractiveMode, type Presence } from "../../tools/approval/InteractiveMode.ts"
import { Clarifier } from "../../tools/builtin/Clarifier.ts"
import { LiveAnswers, type QuestionPolicy } from "../../tools/CallQuestions.ts"
import * as EgressGate from "../../tools/fence/EgressGate.ts"
import { isContinuation, type Turn } from "./HostEvent.ts"
import type { LiveQuestions } from "./LiveQuestions.ts"
import type { SteeringDelivery } from "./MessageQueue.ts"
import type { RemoteRun } from "./RemoteRun.ts"
import type { StateOwner } from "./StateOwner.ts"
import * as WaitingQuestions from "./WaitingQuestions.ts"

/** Options of the runs of a live session. */
export interface RunOptions {
  /** Options of every run except its prompt and its session, such as tools, source and limits. */
  readonly input?:
    | Omit<StartOptions, "cwd" | "onEvent" | "onUsageAfter" | "prompt" | "reasoningEffort" | "route" | "sessionId">
    | undefined
  /** Changes the first prompt of each session, for example to add general choices of the user. */
  readonly prepare?: ((session: SessionId, prompt: RunInput["prompt"]) => Effect.Effect<RunInput["prompt"]>) | undefined
  /**
   * States if a user is present to answer questions. If no user is present, questions are never asked. Defaults to
   * `InteractiveMode.attended`.
   */
  readonly presence?: Presence | undefined
  /**
   * Returns the mode that the user chose. It is called for each tool call. If it is absent or returns `undefined`, the
   * approval settings decide.
   */
  readonly mode?: (() => PermissionMode | undefined) | undefined
  /**
   * Treatment of the forms and texts for which tools ask (`Ask`). `client` asks the clients during the run. By default,
   * the policy of the run decides, which suspends the run.
   */
  readonly forms?: "client" | undefined
}

/** Conditions under which a turn may start. */
export interface TurnAdmission {
  /** Number of clients that hold the session. */
  held: number
  /** True after the user stopped the work, until new work arrives. */
  isPaused: boolean
}

/** Counters of the turns so far. */
export interface TurnCount {
  started: number
  /** Id of the newest turn if it began in the mode `plan`. */
  planned: Turn["id"] | undefined
}

/** Active fibers: the fiber of the current turn, and the fiber that waits for background work. */
export interface TurnFibers {
  running: Fiber.Fiber<unknown, unknown> | undefined
  watching: Fiber.Fiber<unknown, unknown> | undefined
}

const planningLabel = "hermes-effect/host/planning"

/** Instruction of the mode `plan`, sent with each message and not stored. */
const planning =
  "[Plan mode: read only. Look at what you need, then answer with your plan: which edits you will make, in which " +
  "order, and how you will check them. The user approves the plan, or asks for another.]"

/**
 * Registers a hook that sends the instruction of the mode `plan` with each message in this mode, for the lifetime of
 * the scope.
 */
const registerPlanHook = (
  hooks: Hooks.Hooks["Service"],
  owner: StateOwner,
  mode: RunOptions["mode"]
): Effect.Effect<unknown, never, Scope.Scope> =>
  hooks.register({
    ...Hooks.on("pre_llm_call", ({ session_id }) =>
      Effect.sync(() =>
        mode?.() === "plan" && owner.state().turn?.sessionId === session_id ? { context: planning } : undefined
      )
    ),
    label: planningLabel
  })

/** Returns false if questions suspend the run without asking the user first. */
const isAnswerAwaited = ({ unanswered, wait }: QuestionPolicy = {}): boolean =>
  unanswered !== "suspend" || wait === undefined || !Duration.isZero(Duration.fromInputUnsafe(wait))

/**
 * Provides a run with the services that depend on the user: the addresses that the user typed, the mode, and questions.
 */
const provideUser = (
  run: Effect.Effect<RunResult, AgentError>,
  questions: LiveQuestions,
  { forms, input, mode, presence = attended }: RunOptions,
  typed: ReadonlySet<string>
): Effect.Effect<RunResult, AgentError> => {
  const addressed = Effect.provideService(run, EgressGate.TypedAddresses, typed)
  const moded = mode === undefined ? addressed : Effect.provideService(addressed, LiveMode, mode)
  if (presence._tag !== "Attended") return Effect.provideService(moded, InteractiveMode, presence)
  const formed =
    forms === undefined ? moded : Effect.provideService(moded, LiveAnswers, WaitingQuestions.makeLiveAnswers(questions))
  const clarified = Effect.provideService(formed, Clarifier, questions.clarifier)
  // Without a prompt, an approval suspends the run at once.
  return isAnswerAwaited(input?.questions)
    ? Effect.provideService(clarified, ApprovalPrompt, questions.approvals)
    : clarified
}

const isQuestionError = Schema.is(QuestionError)

type AnswersEffect = Effect.Effect<ReadonlyArray<Answer>, SessionStoreError>

/**
 * Continues the suspended run of a session with the answers that are stored. `ask` returns more answers. A durable run
 * that waits for them continues in its runner.
 */
const resumeRun = (
  continueHere: (answers: ReadonlyArray<Answer>) => ReturnType<Agent["Service"]["resume"]>,
  continueClaimed: ((ask: AnswersEffect) => ReturnType<RemoteRun["continueClaimed"]>) | undefined,
  ask: AnswersEffect = Effect.succeed([])
): Effect.Effect<RunResult, AgentError> =>
  Effect.suspend(() => {
    let given: ReadonlyArray<Answer> | undefined
    const asked = Effect.tap(ask, (answers) => Effect.sync(() => (given = answers)))
    return Effect.flatMap(continueClaimed?.(asked) ?? Effect.undefined, (result) => {
      if (result !== undefined) return Effect.succeed(result)
      // The answers are stored already if a durable run was looked for.
      return given === undefined ? Effect.flatMap(ask, continueHere) : continueHere([])
    })
  }).pipe(
    // Another client may have answered in the meantime.
    Effect.catch((error) =>
      isQuestionError(error) ? Effect.fail(new InvalidInput({ message: error.message })) : Effect.fail(error)
    )
  )

/** Interrupts the fiber of a turn, and waits at most `grace` for its end. */
export const interruptFiber = (
  fiber: Fiber.Fiber<unknown, unknown> | undefined,
  grace: Duration.Duration
): Effect.Effect<void> => {
  if (fiber === undefined) return Effect.void
  fiber.interruptUnsafe()
  return Effect.raceFirst(
    Effect.interruptible(Effect.asVoid(Fiber.await(fiber))),
    Effect.interruptible(Effect.sleep(grace))
  )
}

/** Parts of a live session that a turn changes, or is followed with. */
interface TurnParts {
  readonly delivery: SteeringDelivery
  readonly remote: RemoteRun | undefined
}

/** Makes the function that runs the agent for a turn. It publishes the events of the run to the readers. */
export const make = Effect.fnUntraced(function* (
  owner: StateOwner,
  questions: LiveQuestions,
  options: RunOptions,
  { delivery, remote }: TurnParts
): Effect.fn.Return<(turn: Turn) => Effect.Effect<RunResult, AgentError>, never, Agent | Hooks.Hooks | Scope.Scope> {
  const { input, mode, prepare } = options
  const agent = yield* Agent
  const hooks = yield* Hooks.Hooks
  const scope = yield* Effect.scope
  /** Sessions whose first prompt was sent. */
  const begun = new Set<SessionId>()
  /** Web addresses that the user typed since the live session began. The model may access them without approval. */
  const typed = new Set<string>()
  let isPlanHookRegistered = false

  return Effect.fnUntraced(function* (turn) {
    const { id, isRewritten, message, sessionId } = turn
    const { effort, route, session } = owner.state()
    // `shown` is the text as the user typed it, without additions by clients. Only messages from clients come from the
    // user.
    if (message.origin === "client") for (const address of EgressGate.findAddresses(message.shown)) typed.add(address)
    const continues = isContinuation(message)
    const prompt =
      continues || begun.has(sessionId) || prepare === undefined
        ? message.prompt
        : yield* prepare(sessionId, message.prompt)
    if (!continues) begun.add(sessionId)
    const sent = message.received === undefined ? prompt : TextMarks.markPrompt(prompt, message.received)
    const settings = {
      streaming: true,
      ...input,
      readsText: input?.readsText === undefined ? undefined : input.readsText && !isRewritten,
      sessionId,
      cwd: session.cwd,
      route,
      reasoningEffort: effort,
      hasUnreadMessage: () => delivery.isUnread,
      onEvent: (events) =>
        Effect.suspend(() => {
          if (events.some(({ _tag }) => _tag === "StepStarted")) delivery.isUnread = false
          // These events do not change the state, so they are published directly, between the start and the end of
          // their turn.
          owner.readers.publish({ _tag: "RunEvents", turn: id, events })
          return owner.readers.caughtUp
        }),
      onUsageAfter: (events) => Effect.sync(() => owner.readers.publish({ _tag: "UsageAfter", events }))
    } satisfies Omit<StartOptions, "prompt">
    const asked =
      message.origin === "questions" && options.presence?._tag !== "Unattended"
        ? Effect.flatMap(agent.questions(sessionId), (open) => WaitingQuestions.askAll(questions, open))
        : undefined
    const run = continues
      ? resumeRun(
          (answers) => agent.resume({ ...settings, answers }),
          remote === undefined ? undefined : (ask) => remote.continueClaimed(turn, ask),
          asked
        )
      : agent.run({ ...settings, prompt: sent })
    if (mode?.() === "plan" && !isPlanHookRegistered) {
      isPlanHookRegistered = true
      yield* Effect.provideService(registerPlanHook(hooks, owner, mode), Scope.Scope, scope)
    }
    return yield* provideUser(run, questions, options, typed)
  })
})
