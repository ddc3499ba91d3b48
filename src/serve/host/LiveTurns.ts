/**
 * Turns of a live session, and the queue of messages for them. All changes are made on the owner's fiber.
 *
 * **Details**
 *
 * Only one turn runs at a time. When it ends, the next message starts a turn. Messages from plugins come first, then
 * messages in the queue, then reports of background work. With `steer`, a message is delivered to the current turn
 * together with the next tool result. If the turn ends before that, the message becomes the first in the queue. While a
 * client holds the session, no turn starts.
 *
 * Stopping the work must not start other work. `takeBack` therefore returns the messages of clients to its caller, and
 * messages of plugins and background work wait until a client sends a message or new background work reports.
 *
 * **Gotchas**
 *
 * If several hooks replace a tool result, the first one takes precedence. If another hook replaces results, steering
 * messages cannot be added to them and wait for the next turn.
 *
 * Source: `hermes-contract.md` §3.5 (`inject_message`), case 131; `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { Agent } from "../../agent/Agent.ts"
import { BackgroundWork } from "../../agent/BackgroundWork.ts"
import * as Tenancy from "../../agent/Tenancy.ts"
import type { AgentError, SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { isCompleted, type RunResult } from "../../base/domain/RunEvent.ts"
import { Secrets } from "../../base/domain/Secrets.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import { Auxiliary } from "../../models/routing/Auxiliary.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { attended } from "../../tools/approval/InteractiveMode.ts"
import { isContinuation, type Message, type PlanQuestion, type Turn } from "./HostEvent.ts"
import type { LiveQuestions, PlanAnswer } from "./LiveQuestions.ts"
import * as MessageQueue from "./MessageQueue.ts"
import { listSessionIds, type SessionMoves } from "./SessionMoves.ts"
import * as SessionTitles from "./SessionTitles.ts"
import type { RemoteOwner } from "./RemoteOwner.ts"
import type { RemoteRun } from "./RemoteRun.ts"
import type { StateOwner } from "./StateOwner.ts"
import * as TurnRun from "./TurnRun.ts"

/** A message from a client that is not queued yet. */
export interface NewMessage extends MessageQueue.MessageContent {
  /**
   * Handling of the message while a turn is running: queue it for a later turn, deliver it into the turn, or interrupt
   * the turn. Defaults to `queue`.
   */
  readonly busy?: "queue" | "steer" | "interrupt" | undefined
}

/** Result of sending a message. */
export interface SentMessage {
  readonly _tag: "Started" | "Queued" | "Steering"
  readonly message: Message
  /** Turn of another process that took the message. Its message is then not the message of a turn here. */
  readonly turn?: Turn["id"] | undefined
}

/** Options that all turns of a live session share. */
export interface TurnOptions extends TurnRun.RunOptions {
  /**
   * Modes in which a plan can be carried out, and the function that switches to one of them on the owner's fiber. If
   * absent, users are not asked about plans.
   */
  readonly plans?:
    | {
        readonly modes: PlanQuestion["modes"]
        readonly choose: (mode: PlanQuestion["modes"][number]) => Effect.Effect<void>
      }
    | undefined
  /**
   * Generation of titles for new sessions after their first exchange. Defaults to `auxiliary`, which uses the auxiliary
   * model if one is configured.
   */
  readonly titles?: "auxiliary" | "off" | undefined
  /** Time that closing waits for an interrupted turn to end. Defaults to 1.5 seconds. */
  readonly grace?: Duration.Duration | undefined
  /** Handling of reports of background work. Defaults to `turn`: each report is a message that starts a turn. */
  readonly reports?: "turn" | "off" | undefined
}

/** The turns of a live session: accepted messages, the running turn and the open questions. */
export interface LiveTurns {
  /** Accepts a message. All members except `interrupt` must run on the fiber of the `StateOwner`. */
  readonly send: (message: NewMessage, origin: "client" | "plugin") => Effect.Effect<SentMessage>
  /** Continues the suspended run of the session with the answers that are stored, before other messages. */
  readonly continueRun: Effect.Effect<SentMessage>
  /** Asks the open questions of the suspended run, and continues it with the answers. */
  readonly askWaiting: Effect.Effect<SentMessage>
  /** Removes a message from the queue and returns it. Returns `undefined` if the message is no longer queued. */
  readonly unqueue: (id: string) => Effect.Effect<Message | undefined>
  /**
   * Removes and returns the clients' messages that have not started a turn, including steering messages that are not
   * delivered yet. No turn begins until a client sends a message again or new background work reports.
   */
  readonly takeBack: Effect.Effect<ReadonlyArray<Message>>
  /** Asks the turn to end with its current result. Returns false if no turn is running. */
  readonly stop: Effect.Effect<boolean>
  /**
   * Starts a turn that another process runs. Returns false if a turn is running, or a client holds the
   * session.
   */
  readonly watch: (content: MessageQueue.MessageContent, followed: FollowedRun) => Effect.Effect<boolean>
  /** Makes a message that is not added to the queue. */
  readonly makeMessage: (content: MessageQueue.MessageContent) => Message
  /** Starts the next turn if no turn is running. */
  readonly next: Effect.Effect<void>
  /** Changes the number of clients that hold the session. */
  readonly hold: (change: 1 | -1) => Effect.Effect<void>
  /** Interrupts the turn, and waits briefly for its end. Must not run on the owner's fiber. */
  readonly interrupt: Effect.Effect<void>
}

/** A run of another process, and the function that follows it as a turn. */
interface FollowedRun {
  readonly runId: string
  readonly run: TurnWork
}

/** Runs a turn. */
type TurnWork = (turn: Turn) => Effect.Effect<RunResult, AgentError>

/** The message that starts the execution of an approved plan. */
export const planApproved = "The plan is approved. Carry it out now."

/** Values that all steps of a turn share. */
interface TurnContext {
  readonly owner: StateOwner
  readonly moves: SessionMoves
  readonly questions: LiveQuestions
  readonly queue: MessageQueue.MessageQueue
  readonly options: TurnOptions
  readonly agent: Agent["Service"]
  readonly background: BackgroundWork["Service"]
  readonly hooks: Hooks.Hooks["Service"]
  /** Sets a title for the session after a turn, in the background. */
  readonly titleSession: (turn: Turn, result: RunResult) => Effect.Effect<void>
  readonly runTurn: TurnWork
  readonly delivery: MessageQueue.SteeringDelivery
  /** See {@link RemoteOwner.closeTexts}. */
  readonly closeTexts: RemoteOwner["closeTexts"]
  readonly scope: Scope.Scope
  readonly isAttended: boolean
  readonly isSteerable: boolean
  readonly admission: TurnRun.TurnAdmission
  readonly count: TurnRun.TurnCount
  readonly fibers: TurnRun.TurnFibers
}

const reportStoreError =
  ({ owner }: TurnContext) =>
  (error: SessionStoreError): Effect.Effect<void> =>
    Effect.sync(() => owner.readers.publish({ _tag: "Notice", level: "error", message: error.message }))

/** Makes the function that carries out the user's decision about a plan. */
const carryOutDecision =
  (context: TurnContext) =>
  ({ mode: wanted, words = "" }: PlanAnswer): Effect.Effect<void> =>
    Effect.gen(function* () {
      const { plans } = context.options
      const said = words.trim()
      if (wanted !== "plan" && plans !== undefined) yield* plans.choose(wanted)
      const prompt = wanted === "plan" ? said : said === "" ? planApproved : `${planApproved}\n\n${said}`
      if (prompt !== "") yield* sendMessage(context, { prompt }, "client")
    })

/** Asks the user about the plan at the end of a turn, unless the conversation continues anyway. */
const presentPlan = Effect.fnUntraced(function* (context: TurnContext, turn: Turn, { text }: RunResult) {
  const { isAttended, options, owner, questions } = context
  const { mode, plans } = options
  if (
    plans === undefined ||
    plans.modes.length === 0 ||
    !isAttended ||
    mode?.() !== "plan" ||
    turn.isStopping ||
    owner.state().queue.length > 0
  )
    return undefined
  return yield* questions.present(
    { plan: Redaction.redactText(text, yield* Secrets), modes: plans.modes },
    turn.id,
    carryOutDecision(context)
  )
})

const endTurn = Effect.fnUntraced(function* (
  context: TurnContext,
  started: Turn,
  exit: Exit.Exit<RunResult, AgentError>
) {
  const { count, delivery, fibers, moves, owner, questions, queue, titleSession } = context
  fibers.running = undefined
  const { turn = started } = owner.state()
  yield* questions.withdraw
  queue.requeueSteering()
  // A turn that failed was reported with its message, which is not sent again.
  const isFailed = Exit.isFailure(exit) && !Exit.hasInterrupts(exit)
  yield* context.closeTexts(MessageQueue.takeReceived(delivery, turn.message), isFailed ? undefined : turn.sessionId)
  owner.change({ turn: undefined })
  yield* Effect.catch(moves.follow, reportStoreError(context))
  const plan =
    count.planned === turn.id && Exit.isSuccess(exit) && isCompleted(exit.value)
      ? yield* presentPlan(context, turn, exit.value)
      : undefined
  owner.change({ ...plan?.changes }, { _tag: "TurnEnded", turn, exit }, ...(plan === undefined ? [] : [plan.event]))
  if (Exit.isSuccess(exit) && turn.message.origin !== "remote") yield* titleSession(turn, exit.value)
  yield* Effect.catch(moves.entitle, reportStoreError(context))
  yield* startNext(context)
})

const startTurn = Effect.fnUntraced(function* (context: TurnContext, message: Message, followed?: FollowedRun) {
  const { count, fibers, hooks, options, owner, questions } = context
  fibers.watching?.interruptUnsafe()
  yield* questions.withdrawPlan
  const { session } = owner.state()
  const turn: Turn = {
    id: ++count.started,
    message,
    sessionId: session.id,
    startedAt: yield* Clock.currentTimeMillis,
    isStopping: false,
    isRewritten: hooks.has("transform_llm_output"),
    ...(followed === undefined ? {} : { runId: followed.runId })
  }
  const isRemote = message.origin === "remote"
  const prompted =
    isContinuation(message) || isRemote
      ? session
      : { ...session, prompts: session.prompts + 1, lastPrompt: message.prompt }
  count.planned = options.mode?.() === "plan" && !isRemote ? turn.id : undefined
  owner.change({ turn, session: prompted }, { _tag: "TurnStarted", turn })
  // Detached, so that closing does not wait for a turn that ignores interruption.
  fibers.running = yield* Effect.forkDetach(
    Effect.onExit((followed?.run ?? context.runTurn)(turn), (exit) =>
      Effect.sync(() => void owner.post(endTurn(context, turn, exit)))
    )
  )
})

/** Starts the next turn as soon as background work reports. */
const watchBackground = Effect.fnUntraced(function* (context: TurnContext) {
  const { admission, background, fibers, owner, scope } = context
  fibers.watching?.interruptUnsafe()
  const arrived = Effect.raceAllFirst(listSessionIds(owner.state()).map(background.arrived))
  const resume = Effect.sync(() => {
    admission.isPaused = false
    owner.post(startNext(context))
  })
  fibers.watching = yield* Effect.forkIn(Effect.andThen(arrived, resume), scope)
})

/** Takes the reports of background work as one message. */
const takeReports = Effect.fnUntraced(function* ({ background, owner, queue }: TurnContext) {
  const reports = (yield* Effect.forEach(listSessionIds(owner.state()), background.take)).flat()
  if (reports.length === 0) return undefined
  const shown = reports.map((message) => message.split("\n", 1)[0] ?? "").join("\n")
  return queue.makeMessage({ prompt: reports.join("\n\n"), shown }, "background")
})

/** Starts a turn for the next message, if no turn is running and no client holds the session. */
const startNext = (context: TurnContext): Effect.Effect<void> =>
  Effect.gen(function* () {
    const { admission, background, options, owner, queue: messages } = context
    const {
      queue: [first, ...rest],
      turn
    } = owner.state()
    if (turn !== undefined || admission.held > 0) return
    if (first !== undefined && !admission.isPaused) {
      messages.replace(rest)
      return yield* startTurn(context, first)
    }
    if (options.reports === "off") return
    const report = yield* takeReports(context)
    if (report !== undefined && !admission.isPaused) return yield* startTurn(context, report)
    // The report is delivered with the next message. Later reports start a turn.
    if (report !== undefined) {
      messages.replace([...owner.state().queue, report])
      owner.readers.publish({
        _tag: "Notice",
        level: "info",
        message: `${report.shown}\nThe agent is informed along with your next message.`
      })
    }
    const ids = listSessionIds(owner.state())
    const notices = (yield* Effect.forEach(ids, background.takeNotices)).flat()
    if (notices.length > 0) owner.readers.publish({ _tag: "Notice", level: "info", message: notices.join("\n") })
    yield* watchBackground(context)
  })

const stopTurn = ({ agent, fibers, owner, questions }: TurnContext): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const { turn } = owner.state()
    const fiber = fibers.running
    if (turn === undefined || fiber === undefined) {
      yield* questions.withdrawPlan
      return false
    }
    owner.change({ turn: { ...turn, isStopping: true } })
    yield* questions.withdraw
    if (!(yield* agent.stop(turn.sessionId))) fiber.interruptUnsafe()
    return true
  })

const sendMessage = (
  context: TurnContext,
  given: NewMessage,
  origin: Exclude<Message["origin"], "background" | "remote">
): Effect.Effect<SentMessage> =>
  Effect.gen(function* () {
    const { admission, isSteerable, owner, queue: messages } = context
    const { queue, turn } = owner.state()
    const message = messages.makeMessage(given, origin)
    // A plugin message that arrives after the work was stopped also counts as new work.
    if (origin !== "plugin" || turn === undefined) admission.isPaused = false
    if (turn === undefined && admission.held === 0 && queue.length === 0 && !admission.isPaused) {
      yield* startTurn(context, message)
      return { _tag: "Started", message }
    }
    if (given.busy === "steer" && isSteerable && turn !== undefined && typeof given.prompt === "string") {
      messages.addSteering(given.prompt, given.received)
      return { _tag: "Steering", message }
    }
    messages.add(message)
    if (given.busy === "interrupt") yield* stopTurn(context)
    // Continues with the messages that waited while the work was stopped.
    if (turn === undefined) yield* startNext(context)
    return { _tag: "Queued", message }
  })

/** Ends the texts of other processes among messages that were returned. */
const closeReturned = (
  { closeTexts }: TurnContext,
  messages: ReadonlyArray<Message>
): Effect.Effect<ReadonlyArray<Message>> =>
  Effect.as(closeTexts(messages.flatMap(({ received }) => received ?? [])), messages)

/** Starts or queues the turn that continues a suspended run. One that is queued already is enough. */
const continueRun = (context: TurnContext, origin: "answers" | "questions"): Effect.Effect<SentMessage> =>
  Effect.suspend(() => {
    const queued = context.owner.state().queue.find((message) => message.origin === origin)
    return queued === undefined
      ? sendMessage(context, { prompt: "" }, origin)
      : Effect.succeed({ _tag: "Queued", message: queued })
  })

/** Parts that connect the turns with other processes, if their store can be reached. */
interface RemoteParts {
  readonly owner?: RemoteOwner | undefined
  readonly run?: RemoteRun | undefined
}

/** Makes the turns of a live session. */
export const make = Effect.fnUntraced(function* (
  owner: StateOwner,
  moves: SessionMoves,
  questions: LiveQuestions,
  options: TurnOptions,
  remote: RemoteParts = {}
): Effect.fn.Return<LiveTurns, never, Agent | BackgroundWork | Hooks.Hooks | Scope.Scope | SessionStore> {
  const { grace = Duration.millis(1500), presence = attended, titles = "auxiliary" } = options
  const agent = yield* Agent
  const background = yield* BackgroundWork
  const hooks = yield* Hooks.Hooks
  const store = yield* SessionStore
  const auxiliary = titles === "off" ? undefined : Option.getOrUndefined(yield* Effect.serviceOption(Auxiliary))
  const scope = yield* Effect.scope
  const isAttended = presence._tag === "Attended"
  const delivery: MessageQueue.SteeringDelivery = { isUnread: false, received: [] }
  const isSteerable = isAttended && MessageQueue.isSteeringPossible(hooks)
  const queue = MessageQueue.make(owner)
  const admission: TurnRun.TurnAdmission = { held: 0, isPaused: false }
  if (isSteerable) yield* MessageQueue.registerSteering(hooks, owner, queue, delivery)
  const tenants = Option.getOrUndefined(yield* Effect.serviceOption(Tenancy.Tenants))
  const run = yield* TurnRun.make(owner, questions, options, { delivery, remote: remote.run })
  const readMessages = Effect.suspend(() => remote.owner?.readMessages({ owner, questions, turns }) ?? Effect.void)
  const closeTexts = remote.owner?.closeTexts ?? (() => Effect.void)
  const context: TurnContext = {
    owner,
    moves,
    questions,
    queue,
    options,
    agent,
    background,
    hooks,
    titleSession: (turn, result) =>
      auxiliary === undefined
        ? Effect.void
        : SessionTitles.titleInBackground(
            { auxiliary, store, owner, scope, tenants, tenant: options.input?.tenant },
            turn.message.prompt,
            result
          ),
    runTurn: remote.owner === undefined ? run : (turn) => Effect.scoped(Effect.andThen(readMessages, run(turn))),
    delivery,
    closeTexts,
    scope,
    isAttended,
    isSteerable,
    admission,
    count: { started: 0, planned: undefined },
    fibers: { running: undefined, watching: undefined }
  }
  const turns: LiveTurns = {
    send: (message, origin) => sendMessage(context, message, origin),
    continueRun: continueRun(context, "answers"),
    askWaiting: continueRun(context, "questions"),
    takeBack: Effect.suspend(() => {
      admission.isPaused = true
      return closeReturned(context, queue.takeFromClients())
    }),
    stop: stopTurn(context),
    next: startNext(context),
    unqueue: (id) => Effect.suspend(() => Effect.map(closeReturned(context, queue.remove(id)), ([removed]) => removed)),
    hold: (change) =>
      Effect.suspend(() => {
        admission.held += change
        return change < 0 ? startNext(context) : Effect.void
      }),
    watch: (content, followed) =>
      Effect.suspend(() =>
        owner.state().turn !== undefined || admission.held > 0
          ? Effect.succeed(false)
          : Effect.as(startTurn(context, queue.makeMessage(content, "remote"), followed), true)
      ),
    makeMessage: (content) => queue.makeMessage(content, "client"),
    interrupt: Effect.suspend(() => TurnRun.interruptFiber(context.fibers.running, grace))
  }
  return turns
})
