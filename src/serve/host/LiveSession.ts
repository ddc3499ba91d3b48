/**
 * A live session: a conversation that continues from message to message, shared by all of its clients. It owns the
 * current stored session, the queue of messages, the current turn, the open questions, and the settings of the next
 * turn. Its clients include a terminal, `stream-json` and protocol servers. It does not depend on a screen.
 *
 * **Details**
 *
 * {@link LiveSession.subscribe} provides the same stream of events to every client; clients send commands with the
 * members of {@link LiveSession}. One fiber owns the state, so that commands of several clients run one after another
 * and each sees the effects of the previous one. A question has an id, and its first answer applies to all clients.
 *
 * A reader that stops reading does not block others; `EventReaders` describes its handling. When the scope closes, the
 * current turn is interrupted and the session is finalized (`on_session_finalize`).
 *
 * **Gotchas**
 *
 * Commands given after the scope closed are interrupted. The hooks `on_session_finalize` and `on_session_reset` must
 * not give commands, because the owner waits for these hooks. Plugins can inject messages there instead.
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
import type * as ContextFit from "../../agent/ContextFit.ts"
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
import type { RunEvent } from "../../base/domain/RunEvent.ts"
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
import * as LiveQuestions from "./LiveQuestions.ts"
import * as LiveTurns from "./LiveTurns.ts"
import * as SessionMoves from "./SessionMoves.ts"
import * as StateOwner from "./StateOwner.ts"

export { ReaderLagged } from "./EventReaders.ts"
export type { Reader, ReaderOptions } from "./EventReaders.ts"
export { AnswerRejected } from "./LiveQuestions.ts"
export type { NewMessage, SentMessage } from "./LiveTurns.ts"
export type { BegunSession, ResumedSession } from "./SessionMoves.ts"

/** Error raised for a mode that is looser than the mode of the run that started this program. */
export class ModeUnavailable extends Schema.TaggedError<ModeUnavailable>("hermes-effect/host/ModeUnavailable")(
  "ModeUnavailable",
  {
    mode: Schema.String,
    /** The loosest allowed mode. */
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
   * The session to begin with, stored or not. Defaults to a new session. `cwd` is the working directory of its tools.
   */
  readonly session?: { readonly id: Ids.SessionId; readonly cwd?: string | undefined } | undefined
  /** The initial mode. Defaults to the mode of the approvals. */
  readonly mode?: Mode | undefined
  /** The loosest mode that may be set, also by the answer to a plan. Without it, every mode is allowed. */
  readonly maxMode?: Mode | undefined
  /** Working directory of the tools in new sessions. Defaults to the agent's directory. */
  readonly cwd?: string | undefined
  /** Creates the id of the next new session. */
  readonly newSession?: Effect.Effect<Ids.SessionId> | undefined
}

/** Options for summarising a conversation. */
export interface CompactOptions {
  /** Subject that the summary focuses on. */
  readonly focus?: string | undefined
  /** Number of recent exchanges that remain unchanged. */
  readonly keepExchanges?: number | undefined
}

/** Result of a compaction. `warning` is the reason why the conversation was left unchanged if a problem occurred. */
export interface LiveCompaction extends ContextFit.CompactionResult {
  readonly warning: string | undefined
}

/** Background work of the conversation, across all of its sessions. */
export interface LiveBackground {
  readonly list: Effect.Effect<ReadonlyArray<Item>>
  /** Stops a background item by its id or a prefix of the id. */
  readonly stop: (id: string) => Effect.Effect<Item | undefined>
  readonly stopAll: Effect.Effect<ReadonlyArray<Item>>
  /** Waits for background processes that must report their end. */
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
  /** Removes a message from the queue and returns it. Returns `undefined` if the message is no longer queued. */
  readonly unqueue: (id: string) => Effect.Effect<Message | undefined>
  /**
   * Removes and returns the clients' messages that have not started a turn, for a user who stops all work (with
   * {@link LiveSession.stop}). No turn begins until a client sends a message again or new background work reports.
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
  /** Interface through which plugins add messages to the conversation. */
  readonly conversation: Conversation
  /** Prevents turns from starting until the scope closes, for a client that performs other work meanwhile. */
  readonly hold: Effect.Effect<void, never, Scope.Scope>

  /** Begins a new session. */
  readonly begin: (title?: string) => Effect.Effect<SessionMoves.BegunSession, SessionBusy | SessionStoreError>
  /**
   * Switches to the newest session of the conversation that the argument selects: an id, a prefix of an id, a title, or
   * `latest` (in the folder).
   */
  readonly resume: (
    reference: string,
    folder?: SessionFolder
  ) => Effect.Effect<SessionMoves.ResumedSession, SessionBusy | SessionNotFound | SessionStoreError>
  /** Sets the title of the session, and returns the title as stored. */
  readonly rename: (title: string) => Effect.Effect<string, SessionStoreError>
  /** Compacts the conversation between turns. If interrupted, it leaves the conversation unchanged. */
  readonly compact: (options?: CompactOptions) => Effect.Effect<LiveCompaction, AgentError>
  /** Stored record of the session, or `undefined` before its first message. */
  readonly known: Effect.Effect<Session | undefined, SessionStoreError>
  /** Messages stored for the session. */
  readonly messages: Effect.Effect<ReadonlyArray<Prompt.Message>, SessionStoreError>

  readonly setMode: (mode: Mode) => Effect.Effect<void, ModeUnavailable>
  /** Chooses the route of the next turns. `undefined` leaves the choice to the router. */
  readonly setRoute: (route: Route | undefined) => Effect.Effect<void>
  /** Chooses the reasoning effort of the next turns. `undefined` selects the agent's setting. */
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
 * Returns the loosest mode that a live session may use, limited by its options and by the run that started this
 * program.
 */
const readLoosestMode = (maxMode: Mode = "yolo"): Effect.Effect<Mode> =>
  Effect.map(ProcessVariables, (variables) => {
    const limits = InheritedLimits.readLimits(variables)
    return PermissionMode.selectNarrower(
      maxMode,
      limits === undefined ? "yolo" : PermissionMode.fromApprovals(limits.mode)
    )
  })

/** Makes the settings of a live session. `most` is its loosest allowed mode. */
const makeSettings = (
  owner: StateOwner.StateOwner,
  questions: LiveQuestions.LiveQuestions,
  initial: Mode | undefined,
  most: Mode
) => {
  let chosen = initial
  const isAllowed = (mode: Mode): boolean => PermissionMode.selectNarrower(mode, most) === mode
  /** Changes settings. Only for work on the owner's fiber. */
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
      // The mode applies at once, also to a tool call that is judged before the owner's fiber runs this work.
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

/** Interrupts the turn, finalizes the session and closes its owner, once. */
const makeClose = ({ agent, owner, turns }: SessionParts): Effect.Effect<void> => {
  let isClosed = false
  return Effect.suspend(() => {
    if (isClosed) return Effect.void
    isClosed = true
    return Effect.gen(function* () {
      yield* owner.run(turns.hold(1))
      yield* turns.interrupt
      // Waits for the work that the end of the turn added to the queue.
      yield* owner.run(Effect.void)
      yield* agent.finalize(owner.state().session.id, { reason: "shutdown" })
    }).pipe(Effect.ensuring(owner.close))
  })
}

/** Compacts the conversation while no turn can begin. Fails if a turn is running. */
const makeCompaction =
  (
    { agent, moves, owner, turns }: SessionParts,
    tools: NonNullable<Options["input"]>["tools"]
  ): LiveSession["compact"] =>
  ({ focus, keepExchanges } = {}) => {
    const holdIdle = Effect.suspend(() => {
      const { turn } = owner.state()
      return turn === undefined ? turns.hold(1) : Effect.fail(new SessionBusy({ sessionId: turn.sessionId }))
    })
    return Effect.scoped(
      Effect.gen(function* () {
        yield* Effect.acquireRelease(owner.run(holdIdle), () => Effect.sync(() => void owner.post(turns.hold(-1))))
        let warning: string | undefined
        const onEvent = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> =>
          Effect.sync(() => {
            for (const event of events)
              if (event._tag === "Notice" && event.level === "warning") warning = event.message
          })
        const { session } = owner.state()
        const { cwd, id: sessionId } = session
        const compacted = yield* agent.compact({ sessionId, cwd, tools, focus, keepExchanges, onEvent })
        if (compacted.sessionId !== sessionId) yield* owner.run(moves.follow)
        return { ...compacted, warning }
      })
    )
  }

/** Makes a live session over the agent in the context. */
export const make = Effect.fnUntraced(function* (
  options: Options = {}
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
  const questions = LiveQuestions.make(owner)
  const settings = makeSettings(owner, questions, options.mode, yield* readLoosestMode(options.maxMode))
  const turns = yield* LiveTurns.make(owner, moves, questions, {
    ...options,
    mode: settings.mode,
    plans: { modes: planModes.filter(settings.isAllowed), choose: (mode) => settings.apply({ mode }) }
  })

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
    send: (message) => owner.run(turns.send(message, "client")),
    unqueue: (id) => owner.run(turns.unqueue(id)),
    takeBack: owner.run(turns.takeBack),
    stop: owner.run(turns.stop),
    interrupt: turns.interrupt,
    answer: questions.answer,
    conversation: makeConversation(owner, turns),
    hold,
    begin: (title) => owner.run(Effect.tap(moves.begin(title), () => questions.withdrawPlan)),
    resume: (reference, folder) => owner.run(Effect.tap(moves.resume(reference, folder), () => questions.withdrawPlan)),
    rename: (title) => owner.run(moves.rename(title)),
    compact: makeCompaction(parts, options.input?.tools),
    known: moves.known,
    messages: Effect.suspend(() => store.messages(owner.state().session.id)),
    setMode: settings.setMode,
    setRoute: (route) => owner.run(settings.apply({ route })),
    setEffort: (effort) => owner.run(settings.apply({ effort })),
    background: makeLiveBackground(owner, background),
    close
  }
})
