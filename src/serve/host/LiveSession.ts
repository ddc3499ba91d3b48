/**
 * A live session: a conversation that continues from message to message, shared by all of its clients. It owns the
 * current stored session, the queue of messages, the current turn, the open questions, and the settings of the next
 * turn. Its clients include a terminal, `stream-json` and protocol servers. It does not depend on a screen.
 *
 * **Details**
 *
 * {@link LiveSession.subscribe} provides the same stream of events to every client; clients send commands with the
 * members of {@link LiveSession}. One fiber owns the state, so that commands of several clients run one after another
 * and each sees the effects of the previous one. A question has an id. Its first answer counts for all clients.
 *
 * A reader that stops reading does not block the others; see `EventReaders`. When the scope closes, the current turn is
 * interrupted and the session is finalized (`on_session_finalize`).
 *
 * **Gotchas**
 *
 * Commands given after the scope closed are interrupted. The hooks `on_session_finalize` and `on_session_reset` must
 * not give commands, because the owner waits for these hooks. In these hooks, plugins can inject messages instead.
 *
 * **Example** (Answering a tool's question by its id)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Runtime } from "hermes-effect"
 * import { LiveSession } from "hermes-effect/host"
 *
 * const program = Effect.gen(function*() {
 *   const live = yield* LiveSession.make()
 *   const reader = yield* live.subscribe()
 *   yield* live.send({ prompt: "Reply exactly hello" })
 *   let text = ""
 *   while (true) {
 *     const event = yield* reader.take
 *     if (event._tag === "RunEvents") for (const one of event.events) text += one._tag === "TextDelta" ? one.text : ""
 *     if (event._tag === "QuestionAsked" && event.question._tag === "Approval") {
 *       yield* live.answer(event.question.id, { _tag: "Approval", reply: { choice: "deny" } })
 *     }
 *     if (event._tag === "TurnEnded") return text
 *   }
 * })
 *
 * console.log(await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(Runtime.layer()))))
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §1.7 to §1.10.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import { Agent } from "../../agent/Agent.ts"
import { BackgroundWork, type Item } from "../../agent/BackgroundWork.ts"
import * as InheritedLimits from "../../base/config/InheritedLimits.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import {
  type AgentError,
  SessionBusy,
  type SessionNotFound,
  type SessionStoreError
} from "../../base/domain/AgentError.ts"
import * as Ids from "../../base/domain/Ids.ts"
import type { ReasoningEffort } from "../../base/domain/ModelCall.ts"
import type { Route } from "../../base/domain/Route.ts"
import type { Hooks } from "../../hooks/Hooks.ts"
import { ProcessVariables } from "../../base/platform/ProcessVariables.ts"
import type { Conversation } from "../../agent/plugin/MessageInjection.ts"
import { type Session, SessionStore, type SessionFolder } from "../../store/SessionStore.ts"
import type { Reader, ReaderLagged, ReaderOptions } from "./EventReaders.ts"
import {
  planModes,
  type Answer,
  type HostEvent,
  type LiveSettings,
  type Message,
  type Mode,
  type SessionIdentity,
  type State
} from "./HostEvent.ts"
import { bindService } from "../../store/TenantScope.ts"
import * as LiveCompaction from "./LiveCompaction.ts"
import * as LiveQuestions from "./LiveQuestions.ts"
import * as LiveTurns from "./LiveTurns.ts"
import * as RemoteOwner from "./RemoteOwner.ts"
import * as RemoteRun from "./RemoteRun.ts"
import * as RemoteTurns from "./RemoteTurns.ts"
import * as SessionMoves from "./SessionMoves.ts"
import * as StateOwner from "./StateOwner.ts"

export { ReaderLagged } from "./EventReaders.ts"
export type { Reader, ReaderOptions } from "./EventReaders.ts"
export type { CompactOptions, LiveCompaction } from "./LiveCompaction.ts"
export { AnswerRejected } from "./LiveQuestions.ts"
export type { NewMessage, SentMessage } from "./LiveTurns.ts"
export type { BegunSession, ResumedSession } from "./SessionMoves.ts"

/** Error raised if a mode permits more than the least strict mode that is allowed. */
export class ModeUnavailable extends Schema.TaggedError<ModeUnavailable>("hermes-effect/host/ModeUnavailable")(
  "ModeUnavailable",
  {
    mode: Schema.String,
    /** The least strict mode that is allowed. */
    most: Schema.String
  }
) {
  override get message(): string {
    return `Mode "${this.mode}" is not available here: "${this.most}" is the loosest that is allowed.`
  }
}

/** Options of a live session. */
export interface Options extends Omit<LiveTurns.TurnOptions, "mode" | "plans"> {
  /**
   * The first session, which may be stored already. Defaults to a new session. `cwd` is the working directory of its
   * tools.
   */
  readonly session?: { readonly id: Ids.SessionId; readonly cwd?: string | undefined } | undefined
  /** The initial mode. Defaults to the mode that the approval settings define. */
  readonly mode?: Mode | undefined
  /** The least strict mode that may be set, also by an answer to a plan. If absent, every mode is allowed. */
  readonly maxMode?: Mode | undefined
  /** Working directory of the tools in new sessions. Defaults to the agent's directory. */
  readonly cwd?: string | undefined
  /** Creates the id of the next new session. */
  readonly newSession?: Effect.Effect<Ids.SessionId> | undefined
}

/** Background work that belongs to any session of the conversation. */
export interface LiveBackground {
  readonly list: Effect.Effect<ReadonlyArray<Item>>
  /** Stops a background item by its id or a prefix of the id. */
  readonly stop: (id: string) => Effect.Effect<Item | undefined>
  readonly stopAll: Effect.Effect<ReadonlyArray<Item>>
  /** Waits for background processes that notify on completion. */
  readonly settled: Effect.Effect<void>
  /** Waits for background reviews of the conversation. */
  readonly reviewed: Effect.Effect<void>
  /** Removes and returns the notices of finished reviews, one per line. */
  readonly takeNotices: Effect.Effect<ReadonlyArray<string>>
}

/** A session that several clients share: its state, events and commands. */
export interface LiveSession {
  readonly state: Effect.Effect<State>
  /** Subscribes to the events from now on, for the lifetime of the scope. */
  readonly subscribe: (options?: ReaderOptions) => Effect.Effect<Reader, never, Scope.Scope>
  /** The same events as a stream, which ends when the live session is closed. */
  readonly events: Stream.Stream<HostEvent, ReaderLagged>

  /** Begins a turn with the message, or queues it until a turn can begin. */
  readonly send: (message: LiveTurns.NewMessage) => Effect.Effect<LiveTurns.SentMessage>
  /**
   * Begins a turn that continues the suspended run of the session with the answers that its store has, or queues it
   * before other messages.
   */
  readonly continueRun: Effect.Effect<LiveTurns.SentMessage>
  /**
   * If the session has a suspended run, begins a turn that asks its questions and continues the run with the answers.
   * Returns false, and begins nothing, for any other session.
   */
  readonly askWaiting: Effect.Effect<boolean, SessionStoreError>
  /** Removes a message from the queue and returns it. Returns `undefined` if the message is no longer queued. */
  readonly unqueue: (id: string) => Effect.Effect<Message | undefined>
  /**
   * Removes and returns the clients' messages that have not started a turn. Used together with {@link LiveSession.stop}
   * when the user stops all work. No turn begins until a client sends another message or new background work reports.
   */
  readonly takeBack: Effect.Effect<ReadonlyArray<Message>>
  /**
   * Asks the turn to end with its current result, and withdraws its questions and the question about a plan. Returns
   * false if no turn is running.
   */
  readonly stop: Effect.Effect<boolean>
  /** Interrupts the turn, and waits briefly for its end. */
  readonly interrupt: Effect.Effect<void>
  readonly answer: (id: string, answer: Answer) => Effect.Effect<void, LiveQuestions.AnswerRejected>
  /**
   * Follows the turns that other processes with the same store run in this session, until the scope closes. They have
   * the origin `remote`, and `send`, `stop` and `answer` reach their process.
   */
  readonly follow: Effect.Effect<void, never, Scope.Scope>
  /**
   * Follows the turn that another process runs in this session now. Returns its run, with the message that it began
   * with; `undefined` without one that is not followed already.
   */
  readonly attach: Effect.Effect<RemoteTurns.FollowedRun | undefined>
  /** Returns true while the running turn is one of another process. */
  readonly isFollowing: Effect.Effect<boolean>
  /** Returns true for a question that another process asks. */
  readonly isRemoteQuestion: (id: string) => boolean
  /** Returns true if another process follows this session, and may answer its questions. */
  readonly isWatched: Effect.Effect<boolean>
  /** Closes an open question without an answer. The policy of the run (`questions`) says what follows. */
  readonly leaveUnanswered: (id: string) => Effect.Effect<void>
  /** Interface through which plugins add messages to the conversation. */
  readonly conversation: Conversation
  /** Prevents turns from starting until the scope closes. For a client that performs other work in the meantime. */
  readonly hold: Effect.Effect<void, never, Scope.Scope>

  /** Begins a new session. */
  readonly begin: (title?: string) => Effect.Effect<SessionMoves.BegunSession, SessionBusy | SessionStoreError>
  /**
   * Finds a conversation and switches to its newest session. The argument is an id, a prefix of an id, a title, or
   * `latest` for the latest conversation in the folder.
   */
  readonly resume: (
    reference: string,
    folder?: SessionFolder
  ) => Effect.Effect<SessionMoves.ResumedSession, SessionBusy | SessionNotFound | SessionStoreError>
  /** Sets the title of the session, and returns the title as stored. */
  readonly rename: (title: string) => Effect.Effect<string, SessionStoreError>
  /** Compacts the conversation between turns. If interrupted, it leaves the conversation unchanged. */
  readonly compact: (
    options?: LiveCompaction.CompactOptions
  ) => Effect.Effect<LiveCompaction.LiveCompaction, AgentError>
  /** Stored record of the session, or `undefined` before its first message. */
  readonly known: Effect.Effect<Session | undefined, SessionStoreError>
  /** Messages stored for the session. */
  readonly messages: Effect.Effect<ReadonlyArray<Prompt.Message>, SessionStoreError>

  readonly setMode: (mode: Mode) => Effect.Effect<void, ModeUnavailable>
  /** Sets the route for the next turns. `undefined` leaves the choice to the router. */
  readonly setRoute: (route: Route | undefined) => Effect.Effect<void>
  /** Sets the reasoning effort for the next turns. `undefined` selects the agent's setting. */
  readonly setEffort: (effort: ReasoningEffort | undefined) => Effect.Effect<void>

  readonly background: LiveBackground
  /** Closes the live session before its scope closes. */
  readonly close: Effect.Effect<void>
}

const makeLiveBackground = (owner: StateOwner.StateOwner, background: BackgroundWork["Service"]): LiveBackground => {
  const collectFromSessions = <A>(work: (id: Ids.SessionId) => Effect.Effect<ReadonlyArray<A>>) =>
    Effect.suspend(() =>
      Effect.map(Effect.forEach(SessionMoves.listSessionIds(owner.state()), work), (found) => found.flat())
    )
  const forEachSession = (work: (id: Ids.SessionId) => Effect.Effect<void>) =>
    Effect.suspend(() => Effect.forEach(SessionMoves.listSessionIds(owner.state()), work, { discard: true }))
  return {
    list: collectFromSessions(background.list),
    stop: (id) =>
      Effect.suspend(() =>
        Effect.reduce(
          SessionMoves.listSessionIds(owner.state()),
          (): Item | undefined => undefined,
          (found, session) => (found === undefined ? background.stop(session, id) : Effect.succeed(found))
        )
      ),
    stopAll: collectFromSessions(background.stopAll),
    settled: forEachSession(background.settled),
    reviewed: forEachSession(background.reviewed),
    takeNotices: collectFromSessions(background.takeNotices)
  }
}

const makeConversation = (owner: StateOwner.StateOwner, turns: LiveTurns.LiveTurns): Conversation => {
  const postMessage = (text: string, busy: "queue" | "interrupt"): void =>
    void owner.post(Effect.asVoid(turns.send({ prompt: text, busy }, "plugin")))
  return {
    isRunning: () => owner.state().turn !== undefined,
    interrupt: (text) => postMessage(text, "interrupt"),
    queue: (text) => postMessage(text, "queue")
  }
}

/**
 * Returns the least strict mode that a live session may use. Its options and the run that started this program limit
 * the mode.
 */
const readLoosestMode = (maxMode: Mode = "yolo"): Effect.Effect<Mode> =>
  Effect.map(ProcessVariables, (variables) => {
    const limits = InheritedLimits.readLimits(variables)
    return PermissionMode.selectNarrower(
      maxMode,
      limits === undefined ? "yolo" : PermissionMode.fromApprovals(limits.mode)
    )
  })

/** Makes the settings of a live session. `most` is the least strict mode that is allowed. */
const makeSettings = (
  owner: StateOwner.StateOwner,
  questions: LiveQuestions.LiveQuestions,
  initial: Mode | undefined,
  most: Mode
) => {
  let chosen = initial
  const isAllowed = (mode: Mode): boolean => PermissionMode.selectNarrower(mode, most) === mode
  /** Changes settings. Must run on the fiber of the `StateOwner`. */
  const apply = (settings: Partial<LiveSettings>): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (settings.mode !== undefined) chosen = settings.mode
      const { effort, mode, route } = { ...owner.state(), ...settings }
      owner.change(settings, { _tag: "SettingsChanged", settings: { effort, mode, route } })
      return mode === "plan" ? Effect.void : questions.withdrawPlan
    })
  const setMode: LiveSession["setMode"] = (mode) =>
    Effect.suspend(() => {
      if (!isAllowed(mode)) return Effect.fail(new ModeUnavailable({ mode, most }))
      // The mode applies immediately, even to a tool call that is checked before the owner's fiber processes the
      // change.
      chosen = mode
      return owner.run(apply({ mode }))
    })
  return { mode: () => chosen, isAllowed, apply, setMode }
}

/** Parts of a live session that its commands use. */
interface SessionParts {
  readonly agent: Agent["Service"]
  readonly owner: StateOwner.StateOwner
  readonly moves: SessionMoves.SessionMoves
  readonly turns: LiveTurns.LiveTurns
}

/** Makes the Effect that interrupts the turn, finalizes the session and closes its owner. It takes effect only once. */
const makeClose = ({ agent, owner, turns }: SessionParts): Effect.Effect<void> => {
  let isClosed = false
  return Effect.suspend(() => {
    if (isClosed) return Effect.void
    isClosed = true
    return Effect.gen(function* () {
      yield* owner.run(turns.hold(1))
      yield* turns.interrupt
      // Waits for the work that was queued when the turn ended.
      yield* owner.run(Effect.void)
      yield* agent.finalize(owner.state().session.id, { reason: "shutdown" })
    }).pipe(Effect.ensuring(owner.close))
  })
}

/** Makes a live session over the agent in the context. With a tenant, it reaches only the sessions of that tenant. */
export const make = (
  options: Options = {}
): Effect.Effect<LiveSession, never, Agent | BackgroundWork | Hooks | Scope.Scope | SessionStore> => {
  const tenant = options.input?.tenant
  if (tenant === undefined) return makeSession(options)
  return Effect.gen(function* () {
    const { finalize, stop, ...agent } = yield* Agent
    return yield* makeSession(options).pipe(
      Effect.provideService(Agent, { ...agent, ...bindService({ finalize, stop }, tenant) }),
      Effect.provideService(BackgroundWork, bindService(yield* BackgroundWork, tenant)),
      Effect.provideService(SessionStore, bindService(yield* SessionStore, tenant))
    )
  })
}

const makeSession = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<LiveSession, never, Agent | BackgroundWork | Hooks | Scope.Scope | SessionStore> {
  const { cwd, newSession = Ids.makeSessionId } = options
  const agent = yield* Agent
  const store = yield* SessionStore
  const background = yield* BackgroundWork
  const session: SessionIdentity = yield* SessionMoves.makeIdentity(
    options.session?.id ?? (yield* newSession),
    options.session?.cwd ?? cwd
  )
  const owner = yield* StateOwner.make({
    session,
    turn: undefined,
    queue: [],
    steering: [],
    questions: [],
    mode: options.mode ?? "ask",
    route: undefined,
    effort: undefined
  })
  const moves = yield* SessionMoves.make(owner, { cwd, newSession, platform: options.input?.platform ?? "library" })
  const reader = yield* RemoteOwner.makeOwner(owner)
  const questions = LiveQuestions.make(owner, reader?.postQuestions)
  const remoteRun = yield* RemoteRun.makeRemoteRun(owner, questions)
  const settings = makeSettings(owner, questions, options.mode, yield* readLoosestMode(options.maxMode))
  const turnOptions: LiveTurns.TurnOptions = {
    ...options,
    mode: settings.mode,
    plans: { modes: planModes.filter(settings.isAllowed), choose: (mode) => settings.apply({ mode }) }
  }
  const turns = yield* LiveTurns.make(owner, moves, questions, turnOptions, { owner: reader, run: remoteRun })

  const parts: SessionParts = { agent, owner, moves, turns }
  const close = makeClose(parts)
  yield* Effect.addFinalizer(() => close)
  owner.post(turns.next)

  const hold = Effect.acquireRelease(owner.run(turns.hold(1)), () => Effect.sync(() => void owner.post(turns.hold(-1))))

  return {
    state: Effect.sync(owner.state),
    subscribe: owner.readers.subscribe,
    events: Stream.unwrap(
      Effect.map(owner.readers.subscribe(), ({ take }) =>
        Stream.fromPull(Effect.succeed(Effect.map(take, (event) => [event] as const)))
      )
    ),
    ...RemoteTurns.makeCommands({ owner, turns, questions }, remoteRun),
    continueRun: owner.run(turns.continueRun),
    askWaiting: Effect.gen(function* () {
      const { id: sessionId } = owner.state().session
      const found = yield* store.listQuestions({ sessionId, states: ["open", "answered"], limit: 1 })
      if (found.length === 0) return false
      yield* owner.run(turns.askWaiting)
      return true
    }),
    unqueue: (id) => owner.run(turns.unqueue(id)),
    takeBack: owner.run(turns.takeBack),
    interrupt: turns.interrupt,
    leaveUnanswered: questions.leaveUnanswered,
    conversation: makeConversation(owner, turns),
    hold,
    begin: (title) => owner.run(Effect.tap(moves.begin(title), () => questions.withdrawPlan)),
    resume: (reference, folder) => owner.run(Effect.tap(moves.resume(reference, folder), () => questions.withdrawPlan)),
    rename: (title) => owner.run(moves.rename(title)),
    compact: LiveCompaction.makeCompaction(parts, options.input),
    known: moves.known,
    messages: Effect.suspend(() => store.messages(owner.state().session.id)),
    setMode: settings.setMode,
    setRoute: (route) => owner.run(settings.apply({ route })),
    setEffort: (effort) => owner.run(settings.apply({ effort })),
    background: makeLiveBackground(owner, background),
    close
  }
})
