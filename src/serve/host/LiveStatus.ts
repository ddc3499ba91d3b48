/**
 * A summary of a live session: model, context, tokens and cost, background work, questions. It is updated from the
 * events of the session. The cost of processing an event does not depend on the length of the session.
 * {@link LiveStatus.refresh} reads facts that events do not contain.
 *
 * Source: `hermes-product.md` §1.8 and §1.9.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import * as GitBranch from "../../base/platform/GitBranch.ts"
import * as Cost from "../../base/domain/Cost.ts"
import type { SessionId, TurnId } from "../../base/domain/Ids.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { Auxiliary } from "../../models/routing/Auxiliary.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import type { Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as CacheWatch from "./CacheWatch.ts"
import type { HostEvent, LiveSettings, State } from "./HostEvent.ts"
import type { LiveSession } from "./LiveSession.ts"
import * as SessionReports from "./SessionReports.ts"

/** Facts about a live session at a point in time. */
export interface StatusFacts extends Pick<LiveSettings, "effort" | "mode"> {
  /** The model that answered last, or the model of the next turn before the first answer. */
  readonly model: string | undefined
  /** Tokens of the last prompt and its answer, or `undefined` before the first answer. */
  readonly contextTokens: number | undefined
  /** Context window of the model in tokens, or undefined if unknown. */
  readonly window: number | undefined
  /** Tokens used by the conversation, including its sessions before compactions. */
  readonly tokens: number
  readonly cost: Cost.Spent
  readonly cwd: string | undefined
  /**
   * Branch of the repository that contains the working directory, or the abbreviated commit id if no branch is checked
   * out.
   */
  readonly branch: string | undefined
  /** Number of active background items. */
  readonly background: number
  /** Number of open questions. */
  readonly questions: number
  /** Set if the next message will pay for its whole prefix again. */
  readonly cacheLoss: CacheWatch.CacheLoss | undefined
}

/** Facts about a live session for a status line, updated by events and by {@link LiveStatus.refresh}. */
export interface LiveStatus {
  readonly facts: () => StatusFacts
  /** Updates the facts from an event. Events must be passed in order. */
  readonly follow: (event: HostEvent) => void
  /**
   * Looks up the facts that events do not contain. Call it about once a second. Background work is counted each time,
   * and the age of the cached prefix is checked.
   * The totals of the session, the window of the model and the branch are read after a turn, after a change of the
   * session, and every {@link restMillis}.
   */
  readonly refresh: Effect.Effect<void>
}

/** Milliseconds after which the facts are looked up again without an event. */
const restMillis = 10_000

/** The facts, and the values that decide when they are looked up again. */
interface StatusState {
  readonly facts: StatusFacts
  /** The session whose totals are included in the facts. */
  readonly session: SessionId | undefined
  /** Time in milliseconds when the next lookup is due. */
  readonly dueAt: number
  /** The last turn, or `undefined` before the first turn in a session. */
  readonly turn: TurnId | undefined
  /** Name of the model that the router chooses, or `undefined` before it is known. */
  readonly primaryModel: string | undefined
}

const makeInitialState = ({ effort, mode, questions, session }: State, cwd: string | undefined): StatusState => ({
  facts: {
    model: undefined,
    effort,
    mode,
    contextTokens: undefined,
    window: undefined,
    tokens: 0,
    cost: Cost.toSpent(Cost.nothing),
    cwd: session.cwd ?? cwd,
    branch: undefined,
    background: 0,
    questions: questions.length,
    cacheLoss: undefined
  },
  session: undefined,
  turn: undefined,
  dueAt: -Infinity,
  primaryModel: undefined
})

const changeFacts = (state: StatusState, changes: Partial<StatusFacts>): StatusState => ({
  ...state,
  facts: { ...state.facts, ...changes }
})

const reduceRunEvent = (state: StatusState, event: RunEvent): StatusState => {
  if (event._tag === "RunStarted") return { ...changeFacts(state, { model: event.model }), turn: event.turnId }
  if (event._tag !== "UsageReported") return state
  const { cost, tokens } = state.facts
  const total = Usage.countTotalTokens(event.usage)
  const sums = { tokens: tokens + total, cost: Cost.sum(cost, event.cost) }
  return changeFacts(state, event.origin === undefined ? { ...sums, model: event.model, contextTokens: total } : sums)
}

type SessionChanged = Extract<HostEvent, { readonly _tag: "SessionChanged" }>

const reduceSessionChange = (state: StatusState, { change, session }: SessionChanged, cwd: string | undefined) => {
  const facts = {
    ...state.facts,
    ...(change === "new" ? { tokens: 0, cost: Cost.toSpent(Cost.nothing) } : {}),
    ...(change === "titled" ? {} : { cacheLoss: undefined, contextTokens: undefined, cwd: session.cwd ?? cwd })
  }
  const changed: StatusState = { ...state, dueAt: -Infinity, facts }
  if (change === "resumed") return { ...changed, turn: undefined }
  // The totals of a conversation continue across its compactions.
  return change === "titled" ? changed : { ...changed, session: session.id }
}

/** Returns the state after an event. `cwd` is used for a session without a working directory. */
const reduceStatus = (state: StatusState, event: HostEvent, cwd: string | undefined): StatusState => {
  const { facts } = state
  switch (event._tag) {
    case "RunEvents":
    case "UsageAfter":
      return event.events.reduce(reduceRunEvent, state)
    case "TurnStarted":
      return changeFacts(state, { cacheLoss: undefined })
    case "TurnEnded":
      return { ...state, dueAt: -Infinity }
    case "QuestionAsked":
      return changeFacts(state, { questions: facts.questions + 1 })
    case "QuestionClosed":
      return changeFacts(state, { questions: Math.max(0, facts.questions - 1) })
    case "SettingsChanged": {
      const { effort, mode, route } = event.settings
      const model = route?.model ?? state.primaryModel
      return { ...changeFacts(state, { effort, mode, model }), dueAt: -Infinity }
    }
    case "SessionChanged":
      return reduceSessionChange(state, event, cwd)
    default:
      return state
  }
}

/** Services that a status reads. */
type StatusServices = Auxiliary | FileSystem.FileSystem | Path.Path | RunRecord | SessionStore | ToolRegistry

/**
 * Maintains the facts of a live session. `cwd` is used if the session has no working directory. `tools` selects the
 * tools of its runs.
 */
export const make = Effect.fnUntraced(function* (
  live: LiveSession,
  cwd: string | undefined,
  tools?: Selection | undefined
): Effect.fn.Return<LiveStatus, never, StatusServices> {
  const files = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const auxiliary = yield* Auxiliary
  const store = yield* SessionStore
  const router = Option.getOrUndefined(yield* Effect.serviceOption(ModelRouter))
  const watch = yield* CacheWatch.watchPrefix(live, tools)
  let state = makeInitialState(yield* live.state, cwd)
  const updateFacts = (changes: Partial<StatusFacts>): void => {
    state = changeFacts(state, changes)
  }

  const refreshSums = Effect.gen(function* () {
    const { id } = (yield* live.state).session
    if (id === state.session) return
    state = { ...state, session: id }
    const { cost, usage } = yield* SessionReports.readUsage(live)
    updateFacts({ tokens: Usage.countTotalTokens(usage), cost })
  }).pipe(
    Effect.provideService(Auxiliary, auxiliary),
    Effect.provideService(SessionStore, store),
    Effect.catch((error) => Effect.logDebug(`cannot read the usage of the session: ${error.message}`))
  )

  const refreshModel = Effect.gen(function* () {
    const { route } = yield* live.state
    if (router === undefined) return
    const primary = yield* router.primaryRoute ?? router.primary
    state = { ...state, primaryModel: primary.model }
    if (state.facts.model === undefined) updateFacts({ model: route?.model ?? primary.model })
    if (router.catalogue === undefined || router.primaryRoute === undefined) return
    const { source, tokens } = yield* router.catalogue.window(route ?? (yield* router.primaryRoute))
    updateFacts({ window: source === "default" ? undefined : tokens })
  })

  const refreshCacheLoss = Effect.gen(function* () {
    const { turn } = yield* live.state
    updateFacts({ cacheLoss: turn === undefined ? watch.predict(yield* Clock.currentTimeMillis) : undefined })
  })

  const refreshPrefix = Effect.catch(
    Effect.suspend(() => watch.refresh(state.turn)),
    (error) => Effect.logDebug(`cannot read the last request of the session: ${error.message}`)
  )

  return {
    facts: () => state.facts,
    follow: (event) => {
      state = reduceStatus(state, event, cwd)
    },
    refresh: Effect.gen(function* () {
      const { length } = yield* live.background.list
      updateFacts({ background: length })
      const now = yield* Clock.currentTimeMillis
      if (now < state.dueAt) return yield* refreshCacheLoss
      state = { ...state, dueAt: now + restMillis }
      yield* refreshSums
      yield* refreshModel
      const folder = (yield* live.state).session.cwd ?? cwd
      updateFacts({
        branch: folder === undefined ? undefined : yield* Effect.provideContext(GitBranch.readBranch(folder), files)
      })
      yield* refreshPrefix
      yield* refreshCacheLoss
    })
  }
})
