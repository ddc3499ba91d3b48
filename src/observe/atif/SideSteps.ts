/**
 * Trajectories of the side tasks that tool calls requested: a question to another model, and its answer.
 *
 * Source: `relay-atof-atif.md` §2.2 and §2.3.
 */
import { continuesTask, formatTaskId } from "../atof/SideScopes.ts"
import type { Attempt, Call, Tree } from "../RunTree.ts"
import * as Draft from "./Draft.ts"
import * as DraftSteps from "./DraftSteps.ts"
import { type Pictures, readPartsAnswer, toContent, toMetrics } from "./RunContent.ts"
import * as StepFacts from "./StepFacts.ts"

const { formatTime } = StepFacts

/** Lists the side tasks of a call, each as its attempts in order. */
const listTasks = (call: Call): ReadonlyArray<readonly [first: Attempt, ...more: ReadonlyArray<Attempt>]> => {
  const tasks: Array<[Attempt, ...Array<Attempt>]> = []
  for (const attempt of call.run.sideTasks) {
    if (attempt.call !== call) continue
    const last = tasks.at(-1)
    const before = last?.at(-1)
    if (before !== undefined && before.end?.status !== "answered" && continuesTask(attempt, before)) last?.push(attempt)
    else tasks.push([attempt])
  }
  return tasks
}

/** Creates the steps for the messages of a request. */
const makeQuestionSteps = (tree: Tree, attempt: Attempt, pictures: Pictures): ReadonlyArray<Draft.Step> =>
  tree.request(attempt).messages.flatMap((message) => {
    const timestamp = formatTime(attempt.startedAt)
    if (message?.role === "system") return [DraftSteps.makeSystemStep(message.content, timestamp)]
    return message?.role === "user"
      ? [Draft.makeStep({ source: "user", message: toContent(message.content, pictures), timestamp })]
      : []
  })

/** Creates the step for the answer, or for its absence. */
const makeAnswerStep = (attempts: ReadonlyArray<Attempt>): ReadonlyArray<Draft.Step> => {
  const answered = attempts.find(({ end }) => end?.status === "answered")
  const failures = attempts.filter(({ end }) => end?.status !== "answered").map(StepFacts.describeFailure)
  const last = attempts.at(-1)
  if (answered?.end === undefined) {
    if (last?.end === undefined) return []
    const reason = last.end.status === "failed" ? (last.end.failure?.message ?? "unknown error") : undefined
    const facts = { attempts: failures.length, ...DraftSteps.describeRetries(failures) }
    return [
      DraftSteps.makeUnansweredStep(reason, formatTime(last.endedAt), { error: failures.at(-1) ?? null, ...facts })
    ]
  }
  const { reasoning, text } = readPartsAnswer(answered.end.answer, answered.start.step)
  return [
    Draft.makeStep({
      source: "agent",
      message: text,
      timestamp: formatTime(answered.endedAt),
      rest: DraftSteps.buildAgentFields({
        model: answered.end.model ?? answered.start.route.model,
        reasoning: reasoning === "" ? undefined : reasoning,
        metrics: toMetrics(answered),
        modelCalls: 1
      }),
      extra: { ...StepFacts.buildAttemptExtra(answered), ...DraftSteps.describeRetries(failures) }
    })
  ]
}

/** Creates the trajectories of the side tasks of a call. `agent` is the agent that made the call. */
export const draftSideTasks = (
  { pictures, tree }: { readonly tree: Tree; readonly pictures: Pictures },
  agent: Draft.Draft["agent"],
  call: Call
): ReadonlyArray<Draft.Draft> =>
  listTasks(call).map(([first, ...more]) => ({
    sessionId: formatTaskId(first),
    agent: { name: agent.name, version: agent.version },
    goal: undefined,
    steps: [...makeQuestionSteps(tree, first, pictures), ...makeAnswerStep([first, ...more])],
    model: first.start.route.model,
    tools: [],
    extra: { side_task: first.start.task ?? "" }
  }))
