/**
 * Facts about a live session at a glance, kept up to date from its events: model, context, tokens and cost, background
 * work, questions. An event costs the same however long the session is; {@link LiveStatus.refresh} reads facts that
 * require a lookup.
 *
 * Source: `hermes-product.md` §1.8 and §1.9.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Cost from "../../base/domain/Cost.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { Auxiliary } from "../../models/routing/Auxiliary.ts"
import { ModelRouter } from "../../models/routing/ModelRouter.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import type { HostEvent, LiveSettings, State } from "./HostEvent.ts"
import type { LiveSession } from "./LiveSession.ts"
import * as SessionReports from "./SessionReports.ts"

/** Facts at one moment. */
export interface StatusFacts extends Pick<LiveSettings, "effort" | "mode"> {
  /** The model that answered last, or that is to answer. */
  readonly model: string | undefined
  /** Tokens of the last prompt with its answer; undefined before the first. */
  readonly contextTokens: number | undefined
  /** Context window of the model in tokens, or undefined if unknown. */
  readonly window: number | undefined
  /** Tokens and cost of the conversation, over its compactions. */
  readonly tokens: number
  readonly cost: Cost.Spent
  readonly cwd: string | undefined
  /** The branch of the repository around it, or the beginning of a commit's name. */
  readonly branch: string | undefined
  /** Number of things at work in the background. */
  readonly background: number
  /** Number of questions that wait. */
  readonly questions: number
}

export interface LiveStatus {
  readonly facts: () => StatusFacts
  /** Takes an event, in order. */
  readonly follow: (event: HostEvent) => void
  /**
   * Looks up what no event tells; to be called about once a second. Background work is counted each time; sums of the
   * session, the window of the model and the branch are read after a turn or a change of the session, and every
   * {@link restMillis}.
   */
  readonly refresh: Effect.Effect<void>
}

/** Time after which a branch is read again. */
const restMillis = 10_000

/** Levels of folders above one that are looked at for a repository. */
const maxLevels = 64

/** Reads the branch of the repository around a folder; undefined outside of one. */
const readBranch = Effect.fnUntraced(function* (files: FileSystem.FileSystem, path: Path.Path, cwd: string) {
  let folder = cwd
  for (let level = 0; level < maxLevels; level++) {
    const git = path.join(folder, ".git")
    // A linked working tree has a file that names its directory.
    const linked = /^gitdir: (.+)\n?$/.exec(yield* Effect.orElseSucceed(files.readFileString(git), () => ""))?.[1]
    const head = yield* Effect.orElseSucceed(
      files.readFileString(path.join(linked === undefined ? git : path.resolve(folder, linked), "HEAD")),
      () => ""
    )
    if (head !== "") return /^ref: refs\/heads\/(.+)\n?$/.exec(head)?.[1] ?? head.slice(0, 8)
    const above = path.dirname(folder)
    if (above === folder) return undefined
    folder = above
  }
  return undefined
})

/** Maintains the facts of a live session. `cwd` applies if the session has no directory. */
export const make = Effect.fnUntraced(function* (
  live: LiveSession,
  cwd: string | undefined
): Effect.fn.Return<LiveStatus, never, Auxiliary | FileSystem.FileSystem | Path.Path | SessionStore> {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const auxiliary = yield* Auxiliary
  const store = yield* SessionStore
  const router = Option.getOrUndefined(yield* Effect.serviceOption(ModelRouter))
  const chooseFolder = (state: State): string | undefined => state.session.cwd ?? cwd
  const state = yield* live.state
  let session: SessionId | undefined
  let dueAt = -Infinity
  /** The router's own choice, once it is known. */
  let primaryModel: string | undefined
  let facts: StatusFacts = {
    model: undefined,
    effort: state.effort,
    mode: state.mode,
    contextTokens: undefined,
    window: undefined,
    tokens: 0,
    cost: Cost.toSpent(Cost.nothing),
    cwd: chooseFolder(state),
    branch: undefined,
    background: 0,
    questions: state.questions.length
  }
  const updateFacts = (changes: Partial<StatusFacts>): void => {
    facts = { ...facts, ...changes }
  }

  const recordRunEvent = (event: RunEvent): void => {
    if (event._tag === "RunStarted") return updateFacts({ model: event.model })
    if (event._tag !== "UsageReported") return
    const total = Usage.countTotalTokens(event.usage)
    updateFacts({ tokens: facts.tokens + total, cost: Cost.sum(facts.cost, event.cost) })
    if (event.origin === undefined) updateFacts({ model: event.model, contextTokens: total })
  }

  const follow = (event: HostEvent): void => {
    if (event._tag === "TurnEnded" || event._tag === "SessionChanged" || event._tag === "SettingsChanged")
      dueAt = -Infinity
    switch (event._tag) {
      case "RunEvents":
      case "UsageAfter":
        for (const one of event.events) recordRunEvent(one)
        return
      case "QuestionAsked":
        return updateFacts({ questions: facts.questions + 1 })
      case "QuestionClosed":
        return updateFacts({ questions: Math.max(0, facts.questions - 1) })
      case "SettingsChanged":
        return updateFacts({
          effort: event.settings.effort,
          mode: event.settings.mode,
          model: event.settings.route?.model ?? primaryModel
        })
      case "SessionChanged":
        if (event.change === "new") updateFacts({ tokens: 0, cost: Cost.toSpent(Cost.nothing) })
        if (event.change !== "titled") updateFacts({ contextTokens: undefined, cwd: event.session.cwd ?? cwd })
        // The sums of a conversation go on over its compactions.
        if (event.change === "compacted" || event.change === "new") session = event.session.id
        return
      default:
        return
    }
  }

  const sums = Effect.gen(function* () {
    const { id } = (yield* live.state).session
    if (id === session) return
    session = id
    const { cost, usage } = yield* SessionReports.readUsage(live)
    updateFacts({ tokens: Usage.countTotalTokens(usage), cost })
  }).pipe(
    Effect.provideService(Auxiliary, auxiliary),
    Effect.provideService(SessionStore, store),
    Effect.catch((error) => Effect.logDebug(`cannot read the usage of the session: ${error.message}`))
  )

  const window = Effect.gen(function* () {
    const { route } = yield* live.state
    if (router === undefined) return
    const primary = yield* router.primaryRoute ?? router.primary
    primaryModel = primary.model
    if (facts.model === undefined) updateFacts({ model: route?.model ?? primaryModel })
    if (router.catalogue === undefined || router.primaryRoute === undefined) return
    const { source, tokens } = yield* router.catalogue.window(route ?? (yield* router.primaryRoute))
    updateFacts({ window: source === "default" ? undefined : tokens })
  })

  const count = Effect.map(live.background.list, ({ length }) => updateFacts({ background: length }))

  return {
    facts: () => facts,
    follow,
    refresh: Effect.gen(function* () {
      yield* count
      const now = yield* Clock.currentTimeMillis
      if (now < dueAt) return
      dueAt = now + restMillis
      yield* sums
      yield* window
      const folder = chooseFolder(yield* live.state)
      updateFacts({ branch: folder === undefined ? undefined : yield* readBranch(files, path, folder) })
    })
  }
})
