// The run record of generated runs: complete, exact, the same from every reader, and told whole by the trajectory made
// of it. `HERMES_TEST_SEED` names one seed, `HERMES_TEST_GENERATED` how many are tried (`npm run test:record`).
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type * as Prompt from "effect/ai/Prompt"
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { Conversation, type ModelCall, RunRecord, SessionStore, Usage } from "../../src/index.ts"
import { type RecordEvent, RunRecordFile } from "../../src/kit/entry/observability.ts"
import * as History from "../../src/base/domain/History.ts"
import * as Secrets from "../../src/base/domain/Secrets.ts"
import * as Route from "../../src/base/domain/Route.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import * as AtifWriter from "../../src/observe/AtifWriter.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as FromRuns from "../../src/observe/atif/FromRuns.ts"
import { toArguments as argumentsOf } from "../../src/observe/atif/Value.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as AtofRuns from "../../src/observe/atof/FromRuns.ts"
import * as PartialAnswer from "../../src/models/routing/PartialAnswer.ts"
import * as RunTree from "../../src/observe/RunTree.ts"
import * as StoredRuns from "../../src/observe/StoredRuns.ts"
import { scaleRuns } from "../support/effort.ts"
import { heldSecret, planOf } from "../support/generatedPlans.ts"
import { conversationOf, exported, type Outcome, runPlan } from "../support/generatedRuns.ts"
import * as AtifSchema from "./support/atifSchema.ts"
import * as Recorded from "./support/recorded.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

type Tagged<Tag extends RecordEvent.Kind> = Extract<RecordEvent.RecordEvent, { readonly _tag: Tag }>

const of = <Tag extends RecordEvent.Kind>(
  entries: ReadonlyArray<RecordEvent.Entry>,
  tag: Tag
): ReadonlyArray<Tagged<Tag>> =>
  entries.map(({ event }) => event).filter((event): event is Tagged<Tag> => event._tag === tag)

const secrets = Secrets.make()
secrets.add(heldSecret)

/** Without prototypes, members that are undefined, and secrets. */
const plain = (value: unknown): unknown => JSON.parse(secrets.mask(JSON.stringify(value)))

const groupBy = <A>(items: ReadonlyArray<A>, key: (item: A) => string): ReadonlyMap<string, ReadonlyArray<A>> =>
  Map.groupBy(items, key)

/** Every stored message is in the record once, at its position, equal. */
const messagesAreComplete = ({ messages, stored }: Outcome) => {
  for (const [sessionId, all] of messages) {
    const recorded = of(
      stored.filter((entry) => entry.sessionId === sessionId),
      "MessageAppended"
    ).filter(({ position }) => position !== undefined)
    assert.deepStrictEqual(
      recorded.map(({ position }) => position),
      all.map((_, position) => position),
      `positions of ${sessionId}`
    )
    assert.deepStrictEqual(plain(recorded.map(({ message }) => message)), plain(all))
  }
}

const startedAndEnded = (what: string, started: ReadonlyArray<string>, ended: ReadonlyArray<string>) =>
  assert.deepStrictEqual(ended.toSorted(), started.toSorted(), what)

/** Turns that began and have no end: of a run whose process died, and of its children. */
const cutTurns = (stored: Outcome["stored"]): ReadonlySet<string> => {
  const ended = new Set(stored.flatMap(({ event, turnId }) => (event._tag === "RunEnded" ? [turnId] : [])))
  return new Set(
    stored.flatMap(({ event, turnId }) => (event._tag === "RunStarted" && !ended.has(turnId) ? [turnId] : []))
  )
}

/** What began has ended, once; of a run whose process died, its calls. */
const endsAreComplete = ({ heard, isDead, sessionId, stored }: Outcome) => {
  const cut = cutTurns(stored)
  const ofSession = stored
    .filter((entry) => entry.sessionId === sessionId && entry.event._tag === "RunStarted")
    .map(({ turnId }) => turnId)
  assert.isAtMost(ofSession.filter((turn) => cut.has(turn)).length, isDead ? 1 : 0, "runs without an end")
  if (!isDead) assert.strictEqual(cut.size, 0, "runs without an end")
  const whole = stored.filter(({ turnId }) => !cut.has(turnId))
  const started = of(stored, "AttemptStarted").map(({ apiRequestId }) => apiRequestId)
  assert.strictEqual(new Set(started).size, started.length, `ids of attempts: ${started.join(" ")}`)
  startedAndEnded(
    "attempts",
    of(whole, "AttemptStarted").map(({ apiRequestId }) => apiRequestId),
    of(whole, "AttemptEnded").map(({ apiRequestId }) => apiRequestId)
  )
  // The next run of the session ends the calls of one that died.
  const turnOf = (turn: string): string =>
    cut.has(turn) ? (ofSession[ofSession.findIndex((one) => one === turn) + 1] ?? turn) : turn
  const groups = groupBy(
    stored.filter((entry) => entry.sessionId === sessionId || !cut.has(entry.turnId)),
    ({ turnId }) => turnOf(turnId)
  )
  for (const [turn, entries] of groups) {
    const asked = of(entries, "MessageAppended").flatMap(({ copyOf, message, origin }) =>
      copyOf === undefined && origin === "model" && message?.role === "assistant"
        ? message.content.flatMap((part) => (part.type === "tool-call" ? [part.id] : []))
        : []
    )
    const ended = of(entries, "CallEnded")
      .filter(({ parentCallId }) => parentCallId === undefined)
      .map(({ callId }) => callId)
    startedAndEnded(`calls of ${turn}`, asked, ended)
    for (const { callId, parentCallId } of of(entries, "CallStarted"))
      if (parentCallId === undefined) assert.include(ended, callId)
  }
  startedAndEnded(
    "children",
    of(whole, "ChildStarted").map(({ subagentId }) => subagentId),
    of(whole, "ChildEnded").map(({ subagentId }) => subagentId)
  )
  assert.strictEqual(of(heard, "Gap").length, 0)
}

const attemptsOf = (run: RunTree.Run): ReadonlyArray<RunTree.Attempt> => [
  ...run.steps.flatMap(({ attempts }) => attempts),
  ...run.sideTasks
]

/** The session of the plan and those in which it goes on from compacted conversations, in order. */
const chainOf = ({ sessionId, sessions }: Outcome): ReadonlyArray<SessionStore.Session> => {
  const chain = sessions.filter(({ id }) => id === sessionId)
  for (let next = chain[0]; next !== undefined;) {
    const { id } = next
    next = sessions.find(({ continues }) => continues === id)
    if (next !== undefined) chain.push(next)
  }
  return chain
}

/** A session that goes on from a compacted one begins with messages of it and a summary, and says which it left out. */
const beginningsAreExact = (outcome: Outcome) => {
  const { messages, stored } = outcome
  const [, ...continued] = chainOf(outcome)
  for (const { continues: source = "", id } of continued) {
    const own = stored.filter(({ sessionId }) => sessionId === id)
    const from = own[0]?.turnId
    const beginning = own.filter(({ event, turnId }) => turnId === from && event._tag !== "SessionEnded")
    const [link, rewritten] = [of(beginning, "ReplayBegun")[0], of(beginning, "ContextRewritten")[0]]
    const before = messages.get(source) ?? []
    assert.deepStrictEqual([link?.source, link?.position, link?.changed], [
      source,
      before.length,
      ["compression"]
    ] as const)
    const copies = of(beginning, "MessageAppended")
    const kept = copies.flatMap(({ copyOf, message }) => {
      if (copyOf === undefined) return []
      assert.strictEqual(copyOf.sessionId, source)
      assert.deepStrictEqual(plain(message), plain(before[copyOf.position]), `copy of ${copyOf.position}`)
      return [copyOf.position]
    })
    assert.strictEqual(new Set(kept).size, kept.length, "copies have originals of their own")
    const origins = new Map(
      of(
        stored.filter(({ sessionId }) => sessionId === source),
        "MessageAppended"
      ).map(({ origin, position }) => [position, origin])
    )
    for (const { copyOf, message, origin } of copies) {
      assert.strictEqual(origin, copyOf === undefined ? "runtime" : origins.get(copyOf.position))
      if (copyOf === undefined) assert.match(JSON.stringify(message), /note#\d+# of \d+ messages/)
    }
    const removed = (rewritten?.removed ?? []).flatMap((one) =>
      typeof one === "number"
        ? [one]
        : Array.isArray(one)
          ? Array.from({ length: one[1] - one[0] + 1 }, (_, at) => one[0] + at)
          : []
    )
    assert.deepStrictEqual(
      [...kept, ...removed].toSorted((a, b) => a - b),
      before.map((_, position) => position),
      "kept and removed"
    )
    assert.deepStrictEqual(
      [rewritten?.before, rewritten?.after, rewritten?.source],
      [before.length, copies.length, source]
    )
  }
}

const runsBelow = (run: RunTree.Run): ReadonlyArray<RunTree.Run> => {
  const childrenOf = (call: RunTree.Call): ReadonlyArray<RunTree.Child> => [
    ...call.children,
    ...call.calls.flatMap(childrenOf)
  ]
  const children = [...run.children, ...run.steps.flatMap(({ calls }) => calls.flatMap(childrenOf))]
  return [run, ...children.flatMap((child) => (child.run === undefined ? [] : runsBelow(child.run)))]
}

const anyCall: Omit<ModelCall.ModelCall, "messages"> = {
  tools: [],
  toolChoice: "auto",
  responseFormat: { type: "text" },
  stream: false
}

/** A request resolves to what the provider was asked. */
const requestsAreExact = ({ asked, plan, sessions, stored }: Outcome, trees: ReadonlyArray<RunTree.Tree>) => {
  const treeOf = new Map(
    trees.flatMap((tree) =>
      tree.roots
        .flatMap(runsBelow)
        .flatMap(attemptsOf)
        .map((attempt) => [attempt, tree] as const)
    )
  )
  const attempts = Array.from(treeOf.keys())
  assert.strictEqual(attempts.length, of(stored, "AttemptStarted").length, "every attempt is in the tree")
  if (plan.routes !== undefined) return
  const inOrder = new Map(of(stored, "AttemptStarted").map(({ apiRequestId }, index) => [apiRequestId, index]))
  const sorted = attempts.toSorted(
    (a, b) => (inOrder.get(a.start.apiRequestId) ?? 0) - (inOrder.get(b.start.apiRequestId) ?? 0)
  )
  const keyOf = ({ run, start }: RunTree.Attempt): string =>
    start.task === undefined ? conversationOf(sessions, run.sessionId) : ""
  const askedByConversation = groupBy(asked, ({ conversationId }) => conversationId ?? "")
  for (const [key, own] of groupBy(sorted, keyOf)) {
    const questions = askedByConversation.get(key) ?? []
    assert.strictEqual(own.length, questions.length, `attempts of ${key}`)
    own.forEach((attempt, index) => {
      const question = questions[index]
      if (question === undefined) return
      const messages = (treeOf.get(attempt)?.request(attempt).messages ?? []).flatMap(
        (message): ReadonlyArray<Prompt.Message> => {
          assert.isDefined(message, `a message of ${attempt.start.apiRequestId}`)
          return message === undefined ? [] : [message]
        }
      )
      const abilities = Route.abilities(question.info)
      const { apiRequestId, continues = 0 } = attempt.start
      // The rest of an answer that broke off is asked for after its beginning, of which the record has the length.
      const spoken = question.messages.findLast(({ role }) => role === "assistant")
      const beginning = spoken === undefined || continues === 0 ? "" : Conversation.readText(spoken).slice(-continues)
      const whole =
        beginning === "" ? messages : PartialAnswer.makeContinuationCall({ ...anyCall, messages }, beginning).messages
      assert.deepStrictEqual(
        plain(History.toSendableMessages(whole, abilities)),
        plain(question.messages),
        apiRequestId
      )
    })
  }
}

const readFrom = (entries: ReadonlyArray<RecordEvent.Entry>) =>
  RunRecord.RunRecord.use((record) => Effect.andThen(record.append(entries), Stream.runCollect(record.read())))

/** A listener, memory, the database and a file tell the same. */
const readersAgree = Effect.fnUntraced(function* ({ heard, stored }: Outcome) {
  const path = `${yield* temporaryDirectory}/runs.jsonl`
  const memory = yield* Effect.provide(readFrom(heard), RunRecord.layerMemory(), { local: true })
  const file = yield* Effect.provide(
    readFrom(heard),
    RunRecordFile.layer({ path }).pipe(Layer.provide(NodeServices.layer)),
    { local: true }
  )
  assert.deepStrictEqual(plain(memory), plain(stored), "memory")
  assert.deepStrictEqual(plain(file), plain(stored), "file")
})

const trajectoriesBelow = (trajectory: Atif.Trajectory): ReadonlyArray<Atif.Trajectory> => [
  trajectory,
  ...(trajectory.subagent_trajectories ?? []).flatMap(trajectoriesBelow)
]

/** A message without secrets. */
const masked = (message: Prompt.Message): Prompt.Message => plain(message) as Prompt.Message

/** Text of the parts of a message as a trajectory has it. */
const spoken = (message: Prompt.Message): string =>
  typeof message.content === "string"
    ? message.content
    : message.content
        .flatMap((part) =>
          part.type === "text"
            ? [part.text]
            : part.type === "file"
              ? [
                  `${part.data}`.startsWith("http")
                    ? `${part.data}`
                    : `[${part.mediaType}: 35 bytes that are not in this document]`
                ]
              : []
        )
        .join("\n")

const textOfContent = (content: Atif.Content | null | undefined): string =>
  typeof content === "string"
    ? content
    : (content ?? []).map((part) => (part.type === "text" ? part.text : part.source.path)).join("\n")

const resultText = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value)

/** Text of a result, and what is said of its pictures. */
const shownResult = ({ modelOutput = [], result }: Prompt.ToolResultPart): string =>
  [
    resultText(result),
    ...modelOutput.flatMap((part) =>
      part.type === "file" ? ["[image/gif: 35 bytes that are not in this document]"] : []
    )
  ].join("\n")

/** Counts by text. */
const tally = (texts: ReadonlyArray<string>): Record<string, number> => {
  const counts: Record<string, number> = {}
  for (const text of texts) counts[text] = (counts[text] ?? 0) + 1
  return counts
}

/** The trajectory tells every message, argument and result whole, and nothing as what it is not. */
const trajectoriesAreWhole = ({ messages, plan, stored }: Outcome, roots: ReadonlyArray<Atif.Trajectory>) => {
  for (const root of roots) {
    assert.deepStrictEqual(
      AtifCheck.check(plain(root)).filter(({ severity }) => severity === "error"),
      []
    )
    assert.deepStrictEqual(AtifSchema.errors(plain(root)), [])
  }
  const goals = new Map<string, string>(of(stored, "ChildStarted").map(({ goal, sessionId }) => [sessionId, goal]))
  const all = new Map(roots.flatMap(trajectoriesBelow).map((one) => [one.session_id ?? "", one]))
  for (const [sessionId, own] of messages) {
    const said = own.map(masked)
    const trajectory = all.get(sessionId)
    const entries = stored.filter((entry) => entry.sessionId === sessionId)
    assert.isDefined(trajectory, `trajectory of ${sessionId}`)
    if (trajectory === undefined) continue
    const { steps } = trajectory
    const agent = steps.filter(({ source }) => source === "agent")
    const origins = new Map(
      of(entries, "MessageAppended").flatMap(({ origin, position }) =>
        position === undefined ? [] : [[position, origin]]
      )
    )
    const users = said.filter(({ role }, position) => role === "user" && origins.get(position) === "user")
    const goal = goals.get(sessionId)
    assert.deepStrictEqual(
      steps.filter(({ source }) => source === "user").map(({ message }) => textOfContent(message)),
      // A child whose process died before it stored a message says what it was to do: a trajectory has at least one
      // step.
      said.length === 0 && entries.length === 0 && goal !== undefined ? [secrets.mask(goal)] : users.map(spoken),
      "words of the user"
    )
    const told = agent.map(({ message }) => textOfContent(message))
    for (const message of said) {
      if (message.role !== "assistant") continue
      const text = message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
      if (text !== "") assert.include(told, text)
      for (const part of message.content) {
        if (part.type === "reasoning")
          assert.isTrue(
            agent.some(({ reasoning_content }) => reasoning_content?.includes(part.text)),
            "a thought"
          )
      }
    }
    const calls = agent
      .flatMap(({ tool_calls }) => tool_calls ?? [])
      .map(({ arguments: args, function_name: name, tool_call_id: id }) => JSON.stringify([id, name, args]))
    const made = said.flatMap((message) =>
      message.role === "assistant" ? message.content.flatMap((part) => (part.type === "tool-call" ? [part] : [])) : []
    )
    for (const [call, count] of Object.entries(
      tally(made.map(({ id, name, params }) => JSON.stringify([id, name, argumentsOf(params)])))
    )) {
      assert.isAtLeast(tally(calls)[call] ?? 0, count, call.slice(0, 200))
    }
    const results = steps
      .flatMap(({ observation }) => observation?.results ?? [])
      .map(({ content, source_call_id: id }) => JSON.stringify([id, textOfContent(content)]))
    const given = said.flatMap((message) =>
      message.role === "tool" ? message.content.flatMap((part) => (part.type === "tool-result" ? [part] : [])) : []
    )
    const resultsOf = tally(results)
    for (const [result, count] of Object.entries(
      tally(given.map((part) => JSON.stringify([part.id, shownResult(part)])))
    )) {
      assert.strictEqual(resultsOf[result] ?? 0, count, result.slice(0, 200))
    }
    const answered = new Set(
      of(entries, "AttemptEnded")
        .filter(({ status }) => status === "answered")
        .map(({ apiRequestId }) => apiRequestId)
    )
    const main = of(entries, "AttemptStarted").filter(
      ({ apiRequestId, task }) => task === undefined && answered.has(apiRequestId)
    ).length
    assert.strictEqual(
      agent.reduce(
        (sum, { extra, llm_call_count }) => sum + (extra?.["interrupted"] === true ? 0 : (llm_call_count ?? 0)),
        0
      ),
      main,
      "answered model calls"
    )
    for (const { extra, message, source } of steps) {
      if (source === "system" && extra?.["origin"] !== "child")
        assert.notMatch(
          textOfContent(message),
          /prompt#\d+#|goal#\d+#|title#\d+#/,
          "words of the user in a step of the system"
        )
    }
    const tasks = of(entries, "AttemptStarted").filter(({ task }) => task !== undefined).length
    assert.strictEqual(
      trajectory.extra?.["side_tasks"] === undefined ? 0 : Object.keys(trajectory.extra["side_tasks"] ?? {}).length,
      tasks,
      "side tasks"
    )
    if (of(entries, "AttemptStarted").every(({ task }) => task !== undefined)) continue
    // Nothing is added to a message that is more than text.
    for (const { after, before } of of(entries, "ContextRewritten")) assert.isBelow(after, before)
    const rewritten = steps.filter(({ extra, source }) => source === "system" && Object.hasOwn(extra ?? {}, "before"))
    assert.strictEqual(rewritten.length, of(entries, "ContextRewritten").length, "rewritten contexts")
    // A context that was rewritten before the first request stands in the step that tells of it.
    const sent = steps.flatMap(({ message, observation, source }) =>
      source === "system"
        ? [message, ...(observation?.results ?? []).map(({ content }) => content)].map(textOfContent)
        : []
    )
    const isAsked = (turn: string): boolean =>
      entries.some(
        ({ event, turnId }) => turnId === turn && event._tag === "AttemptStarted" && event.task === undefined
      )
    const hasTextPrompt = entries.some(
      ({ event, turnId }) =>
        event._tag === "MessageAppended" &&
        event.copyOf === undefined &&
        event.origin === "user" &&
        event.message?.content.length === 1 &&
        isAsked(turnId)
    )
    if (plan.withContext && hasTextPrompt)
      assert.isTrue(
        sent.some((text) => text.includes("context of a plugin")),
        "context of a plugin"
      )
    if (plan.addsMessages)
      assert.isTrue(
        sent.some((text) => text.includes("remember the rules")),
        "a message of middleware"
      )
  }
}

/** Usage of the record is that of the store, children counted in every session above them. */
const usageAgrees = ({ sessions, stored }: Outcome) => {
  const childrenOf = (id: string): ReadonlyArray<string> =>
    sessions.flatMap((one) =>
      one.parentId === id && one.continues === undefined ? [one.id, ...childrenOf(one.id)] : []
    )
  for (const { id, usage } of sessions) {
    const below = new Set([id, ...childrenOf(id)])
    const used = of(
      stored.filter(({ sessionId }) => below.has(sessionId)),
      "AttemptEnded"
    ).flatMap((end) => end.usage ?? [])
    assert.deepStrictEqual(plain(used.reduce(Usage.add, Usage.zero)), plain(usage), `usage of ${id}`)
  }
}

/** The first turn of the last runtime; undefined where there was one runtime. */
const lastBeginning = ({ plan, stored }: Outcome, sessionId: string): string | undefined => {
  const turns = stored
    .filter((entry) => entry.sessionId === sessionId && entry.event._tag === "RunStarted")
    .map(({ turnId }) => turnId)
  return plan.restarts && turns.length > 1 ? turns.at(-1) : undefined
}

/**
 * The first turn after the session was given up last; undefined where it never was before a turn. One that died gives
 * nothing up.
 */
const lastSegment = ({ stored }: Outcome, sessionId: string): string | undefined => {
  let since: string | undefined
  let isGivenUp = false
  for (const { event, sessionId: of, turnId } of stored) {
    if (of !== sessionId) continue
    if (event._tag === "RunStarted" && isGivenUp) since = turnId
    if (event._tag === "RunStarted") isGivenUp = false
    else if (event._tag === "SessionEnded") isGivenUp = true
  }
  return since
}

const isSystemPrompt = ({ message, source }: Atif.Step): boolean =>
  source === "system" && textOfContent(message).startsWith("You are Hermes")

/**
 * Steps of a trajectory and of its children, as text; those that are copied from an earlier part of the session apart.
 */
const told = (
  root: Atif.Trajectory,
  isSegment: boolean
): { readonly own: ReadonlyArray<string>; readonly copied: ReadonlyArray<string> } => {
  const textOfStep =
    ({ session_id: id }: Atif.Trajectory, withMetrics: boolean) =>
    (step: Atif.Step): string =>
      JSON.stringify([
        id,
        step.source,
        textOfContent(step.message),
        step.tool_calls?.map(({ arguments: args, function_name: name, tool_call_id: callId }) => [callId, name, args]),
        // Results of one millisecond may stand in another order, and so may steps.
        step.observation?.results
          .map((result) => JSON.stringify([result.source_call_id, textOfContent(result.content)]))
          .toSorted(),
        withMetrics ? step.metrics : undefined
      ])
  const own = (one: Atif.Trajectory): ReadonlyArray<string> => {
    // Messages that are sent and not stored stand where the first request had them, of which a later segment knows
    // nothing.
    const steps = one.steps.filter(
      (step) =>
        step.is_copied_context !== true && !(isSegment && (isSystemPrompt(step) || step.extra?.["stored"] === false))
    )
    const pointed = new Set(
      steps
        .flatMap(({ observation }) => observation?.results ?? [])
        .flatMap(({ subagent_trajectory_ref: refs }) => refs ?? [])
        .map(({ trajectory_id: id }) => id)
    )
    const children = (one.subagent_trajectories ?? []).filter(({ trajectory_id: id }) => pointed.has(id))
    return [...steps.map(textOfStep(one, true)), ...children.flatMap(own)]
  }
  return {
    own: own(root),
    copied: root.steps
      .filter((step) => step.is_copied_context === true && !isSystemPrompt(step))
      .map(textOfStep(root, false))
  }
}

const beyond = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): ReadonlyArray<string> => {
  const known = tally(b)
  return Object.entries(tally(a))
    .flatMap(([step, count]) => (count > (known[step] ?? 0) ? [step.slice(0, 600)] : []))
    .slice(0, 3)
}

/**
 * The stream of events is sound, the same live and stored, readable by the reference converter, and has the steps of
 * the trajectory.
 */
const streamIsWhole = (outcome: Outcome, trees: ReadonlyMap<string, RunTree.Tree>) => {
  const { heard, stored } = outcome
  const events = AtofRuns.toEvents(stored, Recorded.agent)
  assert.deepStrictEqual(plain(AtofRuns.toEvents(heard, Recorded.agent)), plain(events), "events live and stored")
  const stream = Atof.parse(events.map((event) => `${JSON.stringify(event)}\n`).join(""))
  assert.deepStrictEqual(stream.faults, [])
  assert.deepStrictEqual(Atof.check(stream), [])
  assert.deepStrictEqual(Recorded.refusals(stream.events), [])
  const { faults, trajectories } = AtifConvert.convert(stream.events)
  assert.deepStrictEqual(faults, [])
  for (const [sessionId, tree] of trees) segmentIsWhole(outcome, tree, sessionId, trajectories)
}

/** Tests for a session that was more than begun. */
const hasRun = ({ roots }: RunTree.Tree): boolean => roots.some(({ start }) => start !== undefined)

/** The last part of a session in a stream has the steps of the trajectory. */
const segmentIsWhole = (
  outcome: Outcome,
  tree: RunTree.Tree,
  sessionId: string,
  trajectories: ReadonlyArray<Atif.Trajectory>
) => {
  const { stored } = outcome
  const since = lastSegment(outcome, sessionId)
  const converted = trajectories.findLast((one) => one.session_id === sessionId)
  const trajectory = FromRuns.buildTrajectory(tree, sessionId, { since })
  // A session without a run has no step in a stream.
  if (!hasRun(tree)) return assert.isUndefined(converted)
  if (converted === undefined || trajectory === undefined) return assert.fail("there are trajectories")
  const [ofStream, ofTree] = [told(converted, since !== undefined), told(trajectory, since !== undefined)]
  assert.deepStrictEqual(
    {
      stream: beyond(ofStream.own, ofTree.own),
      trajectory: beyond(ofTree.own, ofStream.own),
      copied: beyond(ofStream.copied, ofTree.copied)
    },
    { stream: [], trajectory: [], copied: [] },
    "steps that only one has"
  )
  const users = (one: Atif.Trajectory): number => one.steps.filter(({ source }) => source === "user").length
  // Of a later part the stream has what its requests had: those of a compacted conversation lack its beginning, and
  // there may be none.
  const isLater = since !== undefined || tree.beginning(sessionId) !== undefined
  const own = stored.slice(
    Math.max(
      0,
      stored.findIndex(({ event, turnId }) => event._tag === "RunStarted" && turnId === since)
    )
  )
  const isAsked = own.some(
    (entry) => entry.sessionId === sessionId && entry.event._tag === "AttemptStarted" && entry.event.task === undefined
  )
  if (isLater && (outcome.plan.compacts || !isAsked))
    assert.isAtMost(users(converted), users(trajectory), "prompts, copied ones too")
  else assert.strictEqual(users(converted), users(trajectory), "prompts, copied ones too")
}

/** The files that were written while the runs went on are those of the stored record. */
const filesAgree = (outcome: Outcome, trees: ReadonlyMap<string, RunTree.Tree>) => {
  const { files, stored } = outcome
  const stream = Atof.parse(readFileSync(`${files}/events.jsonl`, "utf8"))
  assert.deepStrictEqual(stream.faults, [])
  const lines = plain(Atof.sortByTime(AtofRuns.toEvents(stored, exported, AtifWriter.formatPictureName)))
  // One that died had not written all that it recorded, and the stream of the next begins anew.
  if (!outcome.isDead) assert.deepStrictEqual(plain(stream.events), lines, "the file of events")
  const filesOf = (sessionId: string): ReadonlyArray<string> =>
    readdirSync(files)
      .filter((name) => name.startsWith(sessionId) && name.endsWith(".json"))
      .toSorted((a, b) => Number(/-(\d+)\.json$/u.exec(a)?.[1] ?? 1) - Number(/-(\d+)\.json$/u.exec(b)?.[1] ?? 1))
  let shown = false
  const chain = Array.from(trees)
  chain.forEach(([sessionId, tree], index) => {
    const last = filesOf(sessionId).at(-1)
    if (!hasRun(tree)) return assert.isUndefined(last, "the file of a session without a run")
    const written: unknown = JSON.parse(readFileSync(`${files}/${last}`, "utf8"))
    const trajectory = FromRuns.buildTrajectory(tree, sessionId, {
      agentName: exported.name,
      since: lastBeginning(outcome, sessionId),
      pictures: AtifWriter.formatPictureName
    })
    const next = filesOf(chain[index + 1]?.[0] ?? "none")[0]
    assert.deepStrictEqual(
      written,
      plain({ ...trajectory, ...(next === undefined ? {} : { continued_trajectory_ref: next }) }),
      "the file of the trajectory"
    )
    shown ||= JSON.stringify(written).includes('"path":"images/')
  })
  assert.deepStrictEqual(
    existsSync(`${files}/images`)
      ? readdirSync(`${files}/images`).map((name) => statSync(`${files}/images/${name}`).size)
      : [],
    shown ? [35] : [],
    "pictures"
  )
}

/** No view has the secret, in whatever form. */
const secretIsHeld = ({ files, heard, stored }: Outcome, trajectories: ReadonlyArray<Atif.Trajectory>) => {
  const written = readdirSync(files)
    .filter((name) => name.includes("."))
    .map((name) => readFileSync(`${files}/${name}`, "utf8"))
  for (const text of [JSON.stringify(heard), JSON.stringify(stored), JSON.stringify(trajectories), ...written])
    assert.notInclude(text, heldSecret)
}

const check = Effect.fnUntraced(function* (seed: number) {
  const outcome = yield* runPlan(planOf(seed))
  messagesAreComplete(outcome)
  endsAreComplete(outcome)
  beginningsAreExact(outcome)
  const chain = chainOf(outcome)
  const trees = new Map<string, RunTree.Tree>()
  for (const session of chain) {
    trees.set(
      session.id,
      yield* Effect.provide(StoredRuns.read(session), SessionStore.layerSqlite({ path: outcome.path }), { local: true })
    )
  }
  requestsAreExact(outcome, Array.from(trees.values()))
  yield* readersAgree(outcome)
  const heard = RunTree.fromEntries(outcome.heard)
  const trajectories = Array.from(trees).flatMap(([id, tree]) => {
    const trajectory = FromRuns.buildTrajectory(tree, id)
    assert.deepStrictEqual(plain(FromRuns.buildTrajectory(heard, id)), plain(trajectory), "live and stored")
    return trajectory ?? []
  })
  assert.strictEqual(trajectories.length, chain.length, "each session has a trajectory")
  trajectoriesAreWhole(outcome, trajectories)
  streamIsWhole(outcome, trees)
  filesAgree(outcome, trees)
  secretIsHeld(outcome, trajectories)
  usageAgrees(outcome)
}, Effect.scoped)

const named = process.env["HERMES_TEST_SEED"]
const wanted = process.env["HERMES_TEST_GENERATED"]
const count = Number(wanted ?? scaleRuns(6))
/** Untried seeds, in the long script alone: a change is not to blame for what they find. */
const fresh =
  wanted === undefined
    ? []
    : Array.from({ length: Math.ceil(count / 10) }, (_, index) => (Date.now() % 1_000_000_000) + index)
/** Seeds that found something. */
const found = [60, 149, 455_297_029]
const seeds =
  named === undefined
    ? [...Array.from({ length: count }, (_, index) => index + 1), ...found, ...fresh]
    : [Number(named)]

const short = (value: unknown): string => (JSON.stringify(value) ?? "undefined").slice(0, 300)

/** Places at which two values differ, with what stands there. */
const differences = (actual: unknown, expected: unknown, path = ""): ReadonlyArray<string> => {
  if (Object.is(actual, expected)) return []
  if (typeof actual !== "object" || typeof expected !== "object" || actual === null || expected === null) {
    return [`${path}: ${short(actual)} instead of ${short(expected)}`]
  }
  const [a, b] = [new Map(Object.entries(actual)), new Map(Object.entries(expected))]
  return Array.from(new Set([...a.keys(), ...b.keys()]))
    .flatMap((key) => differences(a.get(key), b.get(key), `${path}/${key}`))
    .slice(0, 6)
}

/** What an assertion found, which its message alone does not say. */
const problemText = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  const found =
    error instanceof Error && "actual" in error && "expected" in error ? differences(error.actual, error.expected) : []
  return [Cause.pretty(cause).slice(0, 400), ...found].join("\n  ")
}

/** The seed and what was found; undefined where all is well. */
const problemOf = (seed: number) =>
  check(seed).pipe(
    Effect.timeoutOrElse({ duration: "4 minutes", orElse: () => Effect.die(new Error("it does not end")) }),
    Effect.as(undefined),
    Effect.catchCause((cause) => Effect.succeed(`HERMES_TEST_SEED=${seed}: ${problemText(cause)}`))
  )

describe("the record of generated runs", () => {
  it("has every kind of plan among thirty", () => {
    const plans = Array.from({ length: 30 }, (_, index) => planOf(index + 1))
    for (const kind of ["dies", "restarts", "streaming"] as const) {
      assert.isAbove(plans.filter((plan) => plan[kind] !== undefined && plan[kind] !== false).length, 1, kind)
    }
  })

  for (const seed of seeds)
    it.live(
      `is complete and exact (seed ${seed})`,
      () => Effect.map(problemOf(seed), (problem) => assert.isUndefined(problem)),
      { concurrent: true }
    )
})
