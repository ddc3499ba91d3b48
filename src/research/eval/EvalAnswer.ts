/**
 * Answers of an agent to the turns of an attempt.
 *
 * **Details**
 *
 * All turns run in one session, each after the answer to the one before. A turn that did not end with an answer ends
 * the conversation; the turns after it have empty answers. The agent works in a temporary directory, so attempts cannot
 * see each other's files.
 *
 * If the session is named, a process that dies leaves it as it is, and the next process continues the attempt: turns
 * that were answered are not asked again, and a turn that had begun goes on from its stored messages.
 *
 * **Example** (Two turns in one session)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import { Runtime } from "hermes-effect"
 * import { EvalAnswer } from "hermes-effect/evaluation"
 *
 * const program = Effect.gen(function* () {
 *   const options = { tools: { tool: () => false }, maxIterations: 1, approvals: "deny" } as const
 *   const { turns } = yield* EvalAnswer.ask(["Reply exactly one", "Reply exactly two"], options)
 *   return turns
 * }).pipe(Effect.provide(Runtime.layer()), Effect.provide(NodeServices.layer))
 *
 * console.log(await Effect.runPromise(program))
 * // => [ 'one', 'two' ]
 * ```
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Agent } from "../../agent/Agent.ts"
import { waitForSession } from "../../agent/BusySession.ts"
import type { Limits } from "../../agent/Budget.ts"
import type { RunOptions } from "../../agent/RunInput.ts"
import type { AgentError, SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Conversation from "../../base/domain/Conversation.ts"
import * as Cost from "../../base/domain/Cost.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import type { Entry } from "../../base/domain/RecordEvent.ts"
import { isCompletedExit, type Exit as RunExit } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import * as SessionChain from "../../store/SessionChain.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import * as BatchRow from "../batch/BatchRow.ts"
import type * as RowPool from "../batch/RowPool.ts"

/** A named session of an attempt, which another process can continue. */
export interface NamedSession {
  readonly sessionId: string
  /** True if an earlier process may have begun the attempt. */
  readonly goesOn: boolean
  /** Directory in which the agent works. It is removed when the attempt ends. */
  readonly directory: string
}

/** Settings of an attempt. */
export interface Options extends Pick<RunOptions, "maxIterations" | "tools"> {
  /** Limits of each turn. */
  readonly budget?: Limits | undefined
  readonly seed?: number | undefined
  /** Decision on calls that need an approval; no user can be asked. */
  readonly approvals: "approve" | "deny"
  /** Session of the attempt. Defaults to a new one, which is not continued. */
  readonly session?: NamedSession | undefined
}

/** Answers to the turns of an attempt. */
export interface Answers {
  /** Answer to the last turn that was asked. */
  readonly text: string
  /** Answers to all turns. A turn that was not asked has an empty answer. */
  readonly turns: ReadonlyArray<string>
  readonly model: string
  readonly exit: RunExit
  readonly sessionId: string
  readonly usage: Usage.Usage
  readonly cost: Cost.Spent
  readonly seed?: number | undefined
}

/** End of a turn. */
interface TurnEnd extends Pick<Answers, "cost" | "exit" | "model" | "sessionId" | "text" | "usage"> {}

/** Turns of a session that ended, and the state of the turn after them. */
interface Progress {
  readonly ended: ReadonlyArray<TurnEnd>
  readonly newest: SessionId
  /** Number of messages in the newest session. */
  readonly messages: number
  /** True if a turn has stored messages and no stored end. */
  readonly isBegun: boolean
  /** The stored answer to a turn whose end is missing, if there is one. */
  readonly answered: string | undefined
  /** Model of the last turn. */
  readonly model: string
}

const noCost: Cost.Spent = Cost.toSpent(Cost.nothing)

/** Returns the turns that ended with a result, in order, from the record of their sessions. */
const listEndedTurns = (entries: ReadonlyArray<Entry>): ReadonlyArray<TurnEnd> => {
  const ended: Array<TurnEnd> = []
  let model = ""
  for (const { event, sessionId } of entries) {
    if (event._tag === "RunStarted") model = event.model
    if (event._tag !== "RunEnded") continue
    const { cost, exit, text = "", usage } = event
    if (exit === "failed" || exit === "interrupted" || exit === "suspended") continue
    ended.push({ cost, exit, model, sessionId, text, usage })
  }
  return ended
}

/** Returns the number of messages in a session at its last ended turn. */
const countEndedMessages = (entries: ReadonlyArray<Entry>): number => {
  let stored = 0
  let atEnd = 0
  for (const { event } of entries) {
    if (event._tag === "MessageAppended" && event.position !== undefined) stored = Math.max(stored, event.position + 1)
    if (event._tag === "RunEnded" && event.exit !== "failed" && event.exit !== "interrupted") atEnd = stored
  }
  return atEnd
}

/** Reads the progress of an attempt from its sessions. */
const readProgress = Effect.fnUntraced(function* (sessionId: string) {
  const store = yield* SessionStore
  const record = yield* RunRecord
  const newest = yield* store.newest(SessionId.make(sessionId))
  const session = Option.getOrUndefined(yield* store.get(newest))
  const messages = session === undefined ? [] : yield* store.messages(newest)
  const ids = session === undefined ? [] : (yield* SessionChain.readChain(session)).map(({ id }) => id)
  const entries = yield* Effect.forEach(ids, (id) =>
    Stream.runCollect(record.read({ sessionId: id, kinds: ["RunStarted", "MessageAppended", "RunEnded"] })).pipe(
      // Entries of children belong to other sessions.
      Effect.map((all) => all.filter((entry) => entry.sessionId === id))
    )
  )
  const isBegun = messages.length > countEndedMessages(entries.at(-1) ?? [])
  const last = messages.at(-1)
  const isAnswered =
    isBegun && last?.role === "assistant" && Conversation.listOpenCalls(messages).length === 0
      ? Conversation.readText(last)
      : ""
  const progress: Progress = {
    ended: listEndedTurns(entries.flat()),
    newest,
    messages: messages.length,
    isBegun,
    answered: isAnswered.trim() === "" ? undefined : isAnswered,
    model: entries.flat().reduce((model, { event }) => (event._tag === "RunStarted" ? event.model : model), "")
  }
  return progress
})

/** Makes the directory of an attempt. It is removed at the end of the attempt, unless another process continues it. */
const makeDirectory = Effect.fnUntraced(function* (session: NamedSession | undefined) {
  const fs = yield* FileSystem.FileSystem
  if (session === undefined)
    return yield* Effect.flatMap(fs.makeTempDirectoryScoped({ prefix: "hermes-eval-" }), fs.realPath)
  yield* Effect.acquireRelease(fs.makeDirectory(session.directory, { recursive: true, mode: 0o700 }), (_, exit) =>
    Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause)
      ? Effect.void
      : Effect.ignore(fs.remove(session.directory, { recursive: true, force: true }))
  )
  return yield* fs.realPath(session.directory)
})

/** Runs a turn of an attempt, or continues it. */
const runTurn = Effect.fnUntraced(function* (
  prompt: string,
  { approvals, budget, maxIterations, seed, session, tools }: Options,
  place: { readonly sessionId: string | undefined; readonly cwd: string; readonly progress: Progress | undefined },
  onEvent: NonNullable<RunOptions["onEvent"]>
): Effect.fn.Return<TurnEnd, AgentError, Agent> {
  const agent = yield* Agent
  const { cwd, progress } = place
  const sessionId = progress?.newest ?? place.sessionId
  const { cost, exit, model, text, usage, ...run } = yield* agent
    .run({
      prompt,
      ...(sessionId === undefined ? {} : { sessionId }),
      ...(progress === undefined
        ? {}
        : {
            expectedSession: { sessionId: progress.newest, messages: progress.messages },
            goesOn: progress.isBegun,
            openCalls: "run" as const
          }),
      ...(session === undefined ? {} : { onInterrupt: "leave" as const }),
      source: "eval",
      platform: "eval",
      cwd,
      tools,
      maxIterations,
      budget,
      seed,
      streaming: false,
      readsText: false,
      onEvent
    })
    .pipe(Effect.provideService(InteractiveMode, makeUnattended("eval run", approvals)))
  return { cost, exit, model, text, usage, sessionId: run.sessionId }
})

/** Returns the usage and cost of all turns, from the stored sessions if another process ran some of them. */
const sumUsage = Effect.fnUntraced(function* (ends: ReadonlyArray<TurnEnd>, session: NamedSession | undefined) {
  const [first] = ends
  const last = ends.at(-1)
  const store = yield* SessionStore
  const stored =
    session?.goesOn === true && last !== undefined
      ? Option.getOrUndefined(yield* store.get(SessionId.make(last.sessionId)))
      : undefined
  if (stored !== undefined) {
    const { cost, usage } = yield* SessionChain.sumUsage(stored)
    return { cost, usage }
  }
  const cost = ends.reduce((sum, end) => Cost.addCall(sum, Cost.fromSpent(end.cost)), Cost.nothing)
  return {
    usage: ends.reduce((sum, end) => Usage.add(sum, end.usage), Usage.zero),
    cost: ends.length === 1 && first !== undefined ? first.cost : Cost.toSpent(cost)
  }
})

/**
 * Asks the agent the prompts of an attempt, one after another in one session. `tell` receives the usage of each step.
 * Fails if a turn fails; its error is the error of the run.
 */
export const ask = Effect.fn("EvalAnswer.ask")(function* (
  prompts: ReadonlyArray<string>,
  options: Options,
  tell: RowPool.UsageReporter = () => Effect.void
): Effect.fn.Return<Answers, AgentError | SessionStoreError, Agent | FileSystem.FileSystem | RunRecord | SessionStore> {
  const { seed, session } = options
  const usageReporter = BatchRow.makeUsageReporter(tell)
  const agent = yield* Agent
  const work = Effect.gen(function* () {
    const cwd = yield* Effect.orDie(makeDirectory(session))
    const ends: Array<TurnEnd> = []
    for (const [index, prompt] of prompts.entries()) {
      const before = ends.at(-1)
      if (before !== undefined && !isCompletedExit(before.exit)) break
      const end: TurnEnd = yield* waitForSession((hasWaited) =>
        Effect.gen(function* () {
          const progress =
            session !== undefined && (session.goesOn || hasWaited) ? yield* readProgress(session.sessionId) : undefined
          const known = progress?.ended[index]
          if (known !== undefined) return known
          if (progress?.answered !== undefined) {
            const { answered: text, model, newest } = progress
            const exit: RunExit = "text_response"
            return { text, exit, model, sessionId: newest, usage: Usage.zero, cost: noCost }
          }
          const place = { sessionId: before?.sessionId ?? session?.sessionId, cwd, progress }
          return yield* runTurn(prompt, options, place, usageReporter.onEvent)
        })
      )
      ends.push(end)
    }
    const last = ends.at(-1)
    if (last === undefined) return yield* Effect.die(new Error("an attempt has at least one prompt"))
    return {
      text: last.text,
      turns: prompts.map((_, index) => ends[index]?.text ?? ""),
      model: last.model,
      exit: last.exit,
      sessionId: last.sessionId,
      ...(yield* sumUsage(ends, session)),
      seed
    }
  })
  return yield* work.pipe(
    Effect.onError(() => usageReporter.rest),
    Effect.ensuring(
      session === undefined ? Effect.void : agent.finalize(session.sessionId, { reason: "session_boundary" })
    ),
    Effect.scoped
  )
})
