/**
 * The trajectory of a session, built from the tree of its runs. It is complete, however long the session is.
 *
 * **Details**
 *
 * - `RunSteps` makes the steps of each run.
 * - Side tasks are not steps. Those that a call requested are trajectories below it; the others (titles, summaries) are
 *   listed in the trajectory's `extra`.
 * - Steps that a session repeats from another one are copied context, before its first run.
 * - A later part of a session has the steps of the earlier runs, and of their children, as copied context. Its totals
 *   and side tasks are its own.
 * - A child is embedded under the call that started it. The reference to a child that did not complete includes its
 *   status.
 *
 * Source: `relay-atof-atif.md` §2.3, §2.4, §2.7 and §2.9.
 */
import type { Entry } from "../../base/domain/RecordEvent.ts"
import type * as Atif from "../Atif.ts"
import type { Call, Child, Run, Tree } from "../RunTree.ts"
import * as Draft from "./Draft.ts"
import { omitPicture, type Pictures } from "./RunContent.ts"
import * as RunSteps from "./RunSteps.ts"
import * as StepFacts from "./StepFacts.ts"

/** Agent, pictures and beginning of a trajectory. */
export interface Options extends RunSteps.AgentOptions {
  /**
   * Saves images whose bytes are in the conversation. By default, such an image is replaced by a note that it was left
   * out.
   */
  readonly pictures?: Pictures | undefined
  /** First turn whose steps are new. Earlier steps are marked as copied context. By default, all steps are new. */
  readonly since?: string | undefined
}

const listChildren = (run: Run): ReadonlyArray<Child> => {
  const listChildrenBelow = (call: Call): ReadonlyArray<Child> => [
    ...call.children,
    ...call.calls.flatMap(listChildrenBelow)
  ]
  return [...run.children, ...run.steps.flatMap(({ calls }) => calls.flatMap(listChildrenBelow))]
}

/** Lists the runs of all descendants of a run. */
const listRunsBelow = (run: Run): ReadonlyArray<Run> =>
  listChildren(run).flatMap((child) => (child.run === undefined ? [] : [child.run, ...listRunsBelow(child.run)]))

/** Tests whether a run and its children have ended. No more entries are then expected. */
const isOver = (run: Run): boolean =>
  run.endedAt !== undefined &&
  listChildren(run).every((child) => child.endedAt !== undefined && (child.run === undefined || isOver(child.run)))

/** The trajectory of an active session. The draft of a finished run is made only once. */
export interface GrowingTrajectory {
  /**
   * Must be called for each entry that was added to the tree. If the entry changes a run whose draft exists, the draft
   * is made again.
   */
  readonly touch: (entry: Entry) => void
  /** Returns the current trajectory, or `undefined` if the session has no messages. */
  readonly trajectory: () => Atif.Trajectory | undefined
}

/** Drafts of the finished runs, in the order of the session. */
interface FinishedRuns {
  readonly session: RunSteps.SessionDraft
  readonly documents: Draft.Drafts
  count: number
}

/** A session whose trajectory grows. */
interface GrowingSession {
  readonly source: RunSteps.RunSource
  readonly sessionId: string
  readonly since: string | undefined
  finished: FinishedRuns | undefined
  /** Turns whose draft is final. */
  readonly turns: Set<string>
}

/** Tests whether an entry changes no step: an entry of a side task, or an entry that trajectories do not show. */
const isAside = ({ sessionId: own, source }: GrowingSession, { event, sessionId, turnId }: Entry): boolean => {
  if (sessionId !== own) return event._tag === "SessionEnded"
  switch (event._tag) {
    case "MessageAppended":
      return event.id !== undefined
    case "AttemptStarted":
      return event.task !== undefined
    case "AttemptEnded":
      return source.tree.roots.some(
        (run) => run.turnId === turnId && run.sideTasks.some(({ start }) => start.apiRequestId === event.apiRequestId)
      )
    case "SessionEnded":
    case "ToolsOffered":
    case "Waiting":
    case "RouteChanged":
    case "Notice":
      return true
    default:
      return false
  }
}

/** Marks steps as copied context, and the steps of the children that they started. */
const markCopied = (steps: ReadonlyArray<Draft.Step>): void => {
  for (const step of steps) {
    step.rest = { ...step.rest, is_copied_context: true }
    for (const child of step.results.flatMap(({ children }) => children)) {
      // A child without steps has its goal as its only step.
      if (child.steps.length === 0 && child.goal !== undefined)
        child.steps.push(Draft.makeStep({ source: "user", message: child.goal, timestamp: undefined }))
      markCopied(child.steps)
    }
  }
}

const addRun = (source: RunSteps.RunSource, session: RunSteps.SessionDraft, run: Run, isCopied: boolean): void => {
  const { steps } = session.draft
  const from = steps.length
  RunSteps.addRun(source, session, run)
  if (isCopied) markCopied(steps.slice(from))
}

/** Drafts the finished runs. `newFrom` is the index of the first run whose steps are new. */
const finishRuns = (growing: GrowingSession, runs: ReadonlyArray<Run>, newFrom: number): FinishedRuns => {
  const { sessionId, source, turns } = growing
  growing.finished ??= {
    session: RunSteps.beginDraft(source, sessionId, runs[0], undefined),
    documents: Draft.makeDraftBuilder(),
    count: 0
  }
  const { finished } = growing
  const lastEnded = runs.findLastIndex(({ endedAt }) => endedAt !== undefined)
  for (let run = runs[finished.count]; run !== undefined; run = runs[finished.count]) {
    // A killed run counts as finished if a later run of its session has ended.
    if (!isOver(run) && !(run.endedAt === undefined && finished.count < lastEnded)) break
    addRun(source, finished.session, run, finished.count < newFrom)
    finished.count++
    for (const { turnId } of [run, ...listRunsBelow(run)]) turns.add(turnId)
  }
  finished.documents.keep(finished.session.draft.steps)
  return finished
}

const buildCurrentTrajectory = (growing: GrowingSession): Atif.Trajectory | undefined => {
  const { sessionId, since, source } = growing
  const runs = source.tree.roots.filter((run) => run.sessionId === sessionId)
  if (runs.length === 0 && source.tree.beginning(sessionId) === undefined) return undefined
  const newFrom = since === undefined ? -1 : runs.findIndex(({ turnId }) => turnId === since)
  const { count, documents, session: finished } = finishRuns(growing, runs, newFrom)
  const rest = runs.slice(count)
  const session = rest.length === 0 ? finished : RunSteps.copyDraft(finished)
  rest.forEach((run, index) => addRun(source, session, run, count + index < newFrom))
  // Side tasks before the first run of a session are in no other document.
  const lastCopied = runs.slice(0, Math.max(0, newFrom)).findLastIndex(({ start }) => start !== undefined)
  return documents.trajectory({
    ...session.draft,
    extra: { ...session.draft.extra, ...StepFacts.describeSideTasks(runs.slice(lastCopied + 1)) }
  })
}

/** Creates the growing trajectory of a session in a tree. */
export const makeGrowingTrajectory = (
  tree: Tree,
  sessionId: string,
  { pictures = omitPicture, since, ...agent }: Options = {}
): GrowingTrajectory => {
  const growing: GrowingSession = {
    source: { tree, agent, pictures },
    sessionId,
    since,
    finished: undefined,
    turns: new Set()
  }
  return {
    touch: (entry) => {
      if (!growing.turns.has(entry.turnId) || isAside(growing, entry)) return
      growing.finished = undefined
      growing.turns.clear()
    },
    trajectory: () => buildCurrentTrajectory(growing)
  }
}

/** Returns the trajectory of a session in a tree, or `undefined` if the session has no messages. */
export const buildTrajectory = (tree: Tree, sessionId: string, options: Options = {}): Atif.Trajectory | undefined =>
  makeGrowingTrajectory(tree, sessionId, options).trajectory()
