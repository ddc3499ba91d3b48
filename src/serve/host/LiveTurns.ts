/**
 * Turns of a live session and the queue of messages before them. All of it changes on the owner's fiber.
 *
 * **Details**
 *
 * There is one turn at a time. When it ends, the next message starts a turn: from a plugin, from the queue, from
 * background work, in this order. A message may also reach the current turn, with the result of the next tool
 * (`steer`); if it does not, it is first in the queue afterwards. While a client holds the session, no turn starts.
 *
 * Stopping the work must not start other work: `takeBack` returns the messages of clients to its caller, and messages
 * of plugins and the background wait for the next message of a client, or for a new one from the background.
 *
 * **Gotchas**
 *
 * The first of several listeners that replace a tool's result wins. If there already is one, nothing can be added to
 * results, and messages wait for the next turn.
 *
 * Source: `hermes-contract.md` §3.5 (`inject_message`), case 131; `hermes-product.md` §1.8.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { Agent } from "../../agent/Agent.ts"
import { BackgroundWork } from "../../agent/BackgroundWork.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import type { AgentError, SessionStoreError } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { isCompleted, type RunResult } from "../../base/domain/RunEvent.ts"
import { Secrets } from "../../base/domain/Secrets.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import { Auxiliary } from "../../models/routing/Auxiliary.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { ApprovalPrompt } from "../../tools/approval/Approver.ts"
import { LiveMode, type PermissionMode } from "../../base/config/PermissionMode.ts"
import { attended, InteractiveMode, type Presence } from "../../tools/approval/InteractiveMode.ts"
import { Clarifier } from "../../tools/builtin/Clarifier.ts"
import * as EgressGate from "../../tools/fence/EgressGate.ts"
import type { Message, PlanQuestion, Turn } from "./HostEvent.ts"
import type { LiveQuestions, PlanAnswer } from "./LiveQuestions.ts"
import { listSessionIds, type SessionMoves } from "./SessionMoves.ts"
import * as SessionTitles from "./SessionTitles.ts"
import type { StateOwner } from "./StateOwner.ts"

/** A message as a client sends it. */
export interface NewMessage {
  readonly prompt: RunInput["prompt"]
  /** The text that represents it on a screen. Defaults to the prompt's text. */
  readonly shown?: string | undefined
  /** Way of a message while a turn is under way: behind it, into it, or in its place. `queue` when absent. */
  readonly busy?: "queue" | "steer" | "interrupt" | undefined
}

/** Fate of a message. */
export interface SentMessage {
  readonly _tag: "Started" | "Queued" | "Steering"
  readonly message: Message
}

/** Values of a live session that its turns share. */
export interface TurnOptions {
  /** Options of every run besides its prompt and its session: tools, source, limits. */
  readonly input?:
    | Omit<RunInput, "cwd" | "onEvent" | "onUsageAfter" | "prompt" | "reasoningEffort" | "route" | "sessionId">
    | undefined
  /** Adds to the first prompt of each session what the user chose for all of them. */
  readonly prepare?: ((session: SessionId, prompt: RunInput["prompt"]) => Effect.Effect<RunInput["prompt"]>) | undefined
  /**
   * The presence of a user who answers questions. Without one, questions are never asked. Defaults to
   * `InteractiveMode.attended`.
   */
  readonly presence?: Presence | undefined
  /** The mode that was chosen, asked for at each call; absent, or undefined, leaves it to the approvals. */
  readonly mode?: (() => PermissionMode | undefined) | undefined
  /**
   * Modes for executing a plan, and the change to one of them, run on the owner's fiber. Absent if users are not asked
   * about plans.
   */
  readonly plans?:
    | {
        readonly modes: PlanQuestion["modes"]
        readonly choose: (mode: PlanQuestion["modes"][number]) => Effect.Effect<void>
      }
    | undefined
  /**
   * Titles of new sessions after their first exchange. Defaults to `auxiliary`, which uses the auxiliary model, if any.
   */
  readonly titles?: "auxiliary" | "off" | undefined
  /** Time that closing waits for a turn to end that is interrupted; 1.5 seconds when absent. */
  readonly grace?: Duration.Duration | undefined
  /** Reports of background work. Defaults to `turn`: each report is a message that starts a turn. */
  readonly reports?: "turn" | "off" | undefined
}

export interface LiveTurns {
  /** Takes a message. Only for work on the owner's fiber, as all but `interrupt`. */
  readonly send: (message: NewMessage, origin: "client" | "plugin") => Effect.Effect<SentMessage>
  /** Removes and returns a message of the queue, or undefined if it is no longer queued. */
  readonly unqueue: (id: string) => Effect.Effect<Message | undefined>
  /**
   * Takes back the messages of clients that no turn began with, also those on their way into the turn. Nothing begins
   * until a client sends one again, or something new arrives from the background.
   */
  readonly takeBack: Effect.Effect<ReadonlyArray<Message>>
  /** Asks the turn to end with its current result. Returns false if no turn is running. */
  readonly stop: Effect.Effect<boolean>
  /** Begins what is next, if nothing is under way. */
  readonly next: Effect.Effect<void>
  /** Adds or takes away holds of clients. */
  readonly hold: (change: 1 | -1) => Effect.Effect<void>
  /** Interrupts the turn and waits a little for it to end. For any fiber but the owner's. */
  readonly interrupt: Effect.Effect<void>
}

const steeringLabel = "hermes-effect/host/steering"
const planningLabel = "hermes-effect/host/planning"

/** Tells the model that it plans; sent with each message, and not stored. */
const planning =
  "[Plan mode: read only. Look at what you need, then answer with your plan: which edits you will make, in which order, and how you will " +
  "check them. The user approves the plan, or asks for another.]"

/** The message that begins the work of an approved plan. */
export const planApproved = "The plan is approved. Carry it out now."

const appendUserMessages = (result: string, messages: ReadonlyArray<string>): string =>
  `${result}\n\n[The user says, while you work:]\n${messages.join("\n")}`

const renderPromptText = (prompt: RunInput["prompt"]): string =>
  typeof prompt === "string"
    ? prompt
    : prompt.map((part) => (part.type === "text" ? part.text : `[${part.mediaType}]`)).join(" ")

export const make = Effect.fnUntraced(function* (
  owner: StateOwner,
  moves: SessionMoves,
  questions: LiveQuestions,
  {
    grace = Duration.millis(1500),
    input,
    mode,
    plans,
    prepare,
    presence = attended,
    reports = "turn",
    titles = "auxiliary"
  }: TurnOptions
): Effect.fn.Return<LiveTurns, never, Agent | BackgroundWork | Hooks.Hooks | Scope.Scope | SessionStore> {
  const agent = yield* Agent
  const background = yield* BackgroundWork
  const hooks = yield* Hooks.Hooks
  const store = yield* SessionStore
  const auxiliary = titles === "off" ? undefined : Option.getOrUndefined(yield* Effect.serviceOption(Auxiliary))
  const scope = yield* Effect.scope
  const isAttended = presence._tag === "Attended"
  const isSteerable =
    isAttended &&
    hooks.list().every(({ events, label }) => label === steeringLabel || !events.includes("transform_tool_result"))
  /** Sessions whose first prompt was sent. */
  const begun = new Set<SessionId>()
  /** Addresses that the user typed since the session is live: a model may read them. */
  const typed = new Set<string>()
  let messages = 0
  let turns = 0
  let held = 0
  /** True from the moment at which the user stopped the work until something new is wanted. */
  let isPaused = false
  let running: Fiber.Fiber<unknown, unknown> | undefined
  let isPlanningTold = false
  /** The turn that began in the mode `plan`. */
  let planned: Turn["id"] | undefined
  let watching: Fiber.Fiber<unknown, unknown> | undefined

  const makeMessage = ({ prompt, shown }: NewMessage, origin: Message["origin"]): Message => ({
    id: `m${++messages}`,
    origin,
    prompt,
    shown: shown ?? renderPromptText(prompt)
  })

  /** Inserts messages before the clients' messages. */
  const insertBeforeClients = (added: ReadonlyArray<Message>): ReadonlyArray<Message> => {
    const { queue } = owner.state()
    const place = queue.findIndex(({ origin }) => origin !== "plugin")
    return place === -1 ? [...queue, ...added] : [...queue.slice(0, place), ...added, ...queue.slice(place)]
  }

  /** Puts a message of a client before what the background reports. */
  const insertBeforeReports = (message: Message): ReadonlyArray<Message> => {
    const { queue } = owner.state()
    const place = queue.findIndex(({ origin }) => origin === "background")
    return place === -1 ? [...queue, message] : queue.toSpliced(place, 0, message)
  }

  const setQueue = (queue: ReadonlyArray<Message>, steering: ReadonlyArray<string>): void =>
    owner.change({ queue, steering }, { _tag: "QueueChanged", queue, steering })

  if (isSteerable) {
    yield* hooks.register({
      ...Hooks.on("transform_tool_result", ({ result, session_id }) => {
        const isMeant = (): boolean => owner.state().steering.length > 0 && owner.state().turn?.sessionId === session_id
        return !isMeant()
          ? Effect.undefined
          : owner.run(
              Effect.sync(() => {
                const { queue, steering, turn } = owner.state()
                if (!isMeant() || turn === undefined) return undefined
                setQueue(queue, [])
                owner.readers.publish({ _tag: "Steered", turn: turn.id, texts: steering })
                return appendUserMessages(Json.toText(result), steering)
              })
            )
      }),
      label: steeringLabel
    })
  }

  const runTurn = Effect.fnUntraced(function* ({
    id,
    isRewritten,
    message,
    sessionId
  }: Turn): Effect.fn.Return<RunResult, AgentError> {
    const { effort, route, session } = owner.state()
    // The text as the user typed it: neither what clients add to it nor messages of others are the user's.
    if (message.origin === "client") for (const address of EgressGate.findAddresses(message.shown)) typed.add(address)
    const prompt =
      begun.has(sessionId) || prepare === undefined ? message.prompt : yield* prepare(sessionId, message.prompt)
    begun.add(sessionId)
    const run = agent.run({
      streaming: true,
      ...input,
      readsText: input?.readsText === undefined ? undefined : input.readsText && !isRewritten,
      prompt,
      sessionId,
      cwd: session.cwd,
      route,
      reasoningEffort: effort,
      onEvent: (events) =>
        Effect.suspend(() => {
          // They change no state, and stand between the start and the end of their turn, which the owner tells.
          owner.readers.publish({ _tag: "RunEvents", turn: id, events })
          return owner.readers.caughtUp
        }),
      onUsageAfter: (events) => Effect.sync(() => owner.readers.publish({ _tag: "UsageAfter", events }))
    })
    const chosen = mode?.()
    if (chosen === "plan" && !isPlanningTold) {
      isPlanningTold = true
      yield* Effect.provideService(
        hooks.register({
          ...Hooks.on("pre_llm_call", ({ session_id }) =>
            Effect.sync(() =>
              mode?.() === "plan" && owner.state().turn?.sessionId === session_id ? { context: planning } : undefined
            )
          ),
          label: planningLabel
        }),
        Scope.Scope,
        scope
      )
    }
    const addressed = Effect.provideService(run, EgressGate.TypedAddresses, typed)
    const moded = mode === undefined ? addressed : Effect.provideService(addressed, LiveMode, mode)
    return yield* isAttended
      ? moded.pipe(
          Effect.provideService(Clarifier, questions.clarifier),
          Effect.provideService(ApprovalPrompt, questions.approvals)
        )
      : Effect.provideService(moded, InteractiveMode, presence)
  })

  const reportStoreError = (error: SessionStoreError): Effect.Effect<void> =>
    Effect.sync(() => owner.readers.publish({ _tag: "Notice", level: "error", message: error.message }))

  /** Titles the session on the side. */
  const titleSession = Effect.fnUntraced(function* (turn: Turn, result: RunResult) {
    if (auxiliary === undefined || !SessionTitles.isDue(owner.state().session, result)) return
    const titled = Effect.flatMap(
      SessionTitles.generateTitle(auxiliary, store, turn.message.prompt, result),
      (isTitled) =>
        Effect.sync(() => {
          if (!isTitled) return
          owner.post(
            Effect.sync(() => {
              const { session } = owner.state()
              if (session.id === result.sessionId)
                owner.change({}, { _tag: "SessionChanged", change: "titled", from: session.id, session })
            })
          )
        })
    )
    yield* Effect.forkIn(
      Effect.catch(titled, (error) => Effect.logDebug(`cannot title the session: ${error.message}`)),
      scope
    )
  })

  /** Does what the user says about a plan. */
  const carryOutDecision = Effect.fnUntraced(function* ({ mode: wanted, words = "" }: PlanAnswer) {
    const said = words.trim()
    if (wanted !== "plan" && plans !== undefined) yield* plans.choose(wanted)
    const prompt = wanted === "plan" ? said : said === "" ? planApproved : `${planApproved}\n\n${said}`
    if (prompt !== "") yield* send({ prompt }, "client")
  })

  /** Asks about the plan that a turn ended with, unless the conversation goes on anyhow. */
  const presentPlan = Effect.fnUntraced(function* (turn: Turn, { text }: RunResult) {
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
      carryOutDecision
    )
  })

  const endTurn = Effect.fnUntraced(function* (started: Turn, exit: Exit.Exit<RunResult, AgentError>) {
    running = undefined
    const { steering, turn = started } = owner.state()
    yield* questions.withdraw
    if (steering.length > 0)
      setQueue(insertBeforeClients(steering.map((text) => makeMessage({ prompt: text }, "client"))), [])
    owner.change({ turn: undefined })
    yield* Effect.catch(moves.follow, reportStoreError)
    const plan =
      planned === turn.id && Exit.isSuccess(exit) && isCompleted(exit.value)
        ? yield* presentPlan(turn, exit.value)
        : undefined
    owner.change({ ...plan?.changes }, { _tag: "TurnEnded", turn, exit }, ...(plan === undefined ? [] : [plan.event]))
    if (Exit.isSuccess(exit)) yield* titleSession(turn, exit.value)
    yield* Effect.catch(moves.entitle, reportStoreError)
    yield* next
  })

  const startTurn = Effect.fnUntraced(function* (message: Message) {
    watching?.interruptUnsafe()
    yield* questions.withdrawPlan
    const { session } = owner.state()
    const turn: Turn = {
      id: ++turns,
      message,
      sessionId: session.id,
      startedAt: yield* Clock.currentTimeMillis,
      isStopping: false,
      isRewritten: hooks.has("transform_llm_output")
    }
    const prompted = { ...session, prompts: session.prompts + 1, lastPrompt: message.prompt }
    planned = mode?.() === "plan" ? turn.id : undefined
    owner.change({ turn, session: prompted }, { _tag: "TurnStarted", turn })
    // Detached, so that closing does not wait for a turn that ignores interruption.
    running = yield* Effect.forkDetach(
      Effect.onExit(runTurn(turn), (exit) => Effect.sync(() => void owner.post(endTurn(turn, exit))))
    )
  })

  /** Begins what is next as soon as something arrives from the background. */
  const watchBackground = Effect.fnUntraced(function* () {
    watching?.interruptUnsafe()
    const arrived = Effect.raceAllFirst(listSessionIds(owner.state()).map(background.arrived))
    const resume = Effect.sync(() => {
      isPaused = false
      owner.post(next)
    })
    watching = yield* Effect.forkIn(Effect.andThen(arrived, resume), scope)
  })

  /** Takes what the background has to say, as one message. */
  const takeReports = Effect.fnUntraced(function* () {
    const told = (yield* Effect.forEach(listSessionIds(owner.state()), background.take)).flat()
    if (told.length === 0) return undefined
    const shown = told.map((message) => message.split("\n", 1)[0] ?? "").join("\n")
    return makeMessage({ prompt: told.join("\n\n"), shown }, "background")
  })

  const next: Effect.Effect<void> = Effect.gen(function* () {
    const {
      queue: [first, ...rest],
      steering,
      turn
    } = owner.state()
    if (turn !== undefined || held > 0) return
    if (first !== undefined && !isPaused) {
      setQueue(rest, steering)
      return yield* startTurn(first)
    }
    if (reports === "off") return
    const report = yield* takeReports()
    if (report !== undefined && !isPaused) return yield* startTurn(report)
    // The report is delivered with the next message, and later arrivals start a turn.
    if (report !== undefined) {
      setQueue([...owner.state().queue, report], steering)
      owner.readers.publish({
        _tag: "Notice",
        level: "info",
        message: `${report.shown}\nThe agent is told behind your next message.`
      })
    }
    const ids = listSessionIds(owner.state())
    const notices = (yield* Effect.forEach(ids, background.takeNotices)).flat()
    if (notices.length > 0) owner.readers.publish({ _tag: "Notice", level: "info", message: notices.join("\n") })
    yield* watchBackground()
  })

  const stop = Effect.gen(function* () {
    const { turn } = owner.state()
    const fiber = running
    if (turn === undefined || fiber === undefined) {
      yield* questions.withdrawPlan
      return false
    }
    owner.change({ turn: { ...turn, isStopping: true } })
    yield* questions.withdraw
    if (!(yield* agent.stop(turn.sessionId))) fiber.interruptUnsafe()
    return true
  })

  const takeBack = Effect.sync((): ReadonlyArray<Message> => {
    const { queue, steering } = owner.state()
    const waiting = queue.filter(({ origin }) => origin === "client")
    const taken = [...steering.map((prompt) => makeMessage({ prompt }, "client")), ...waiting]
    isPaused = true
    if (taken.length === 0) return taken
    setQueue(
      queue.filter((message) => !waiting.includes(message)),
      []
    )
    owner.readers.publish({ _tag: "MessagesReturned", messages: taken })
    return taken
  })

  const send: (given: NewMessage, origin: "client" | "plugin") => Effect.Effect<SentMessage> = Effect.fnUntraced(
    function* (given, origin) {
      const { queue, steering, turn } = owner.state()
      const message = makeMessage(given, origin)
      // A message of a plugin that comes behind stopped work is something new, too.
      if (origin === "client" || turn === undefined) isPaused = false
      if (turn === undefined && held === 0 && queue.length === 0 && !isPaused) {
        yield* startTurn(message)
        return { _tag: "Started", message }
      }
      if (given.busy === "steer" && isSteerable && turn !== undefined && typeof given.prompt === "string") {
        setQueue(queue, [...steering, given.prompt])
        return { _tag: "Steering", message }
      }
      setQueue(origin === "plugin" ? insertBeforeClients([message]) : insertBeforeReports(message), steering)
      if (given.busy === "interrupt") yield* stop
      // Lets messages that waited since the work was stopped go on.
      if (turn === undefined) yield* next
      return { _tag: "Queued", message }
    }
  )

  return {
    send,
    takeBack,
    stop,
    next,
    unqueue: (id) =>
      Effect.sync(() => {
        const { queue, steering } = owner.state()
        const found = queue.find((message) => message.id === id)
        if (found !== undefined)
          setQueue(
            queue.filter((message) => message !== found),
            steering
          )
        return found
      }),
    hold: (change) =>
      Effect.suspend(() => {
        held += change
        return change < 0 ? next : Effect.void
      }),
    interrupt: Effect.suspend(() => {
      const fiber = running
      if (fiber === undefined) return Effect.void
      fiber.interruptUnsafe()
      return Effect.raceFirst(
        Effect.interruptible(Effect.asVoid(Fiber.await(fiber))),
        Effect.interruptible(Effect.sleep(grace))
      )
    })
  }
})
