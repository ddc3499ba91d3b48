/**
 * Runs of an evaluation: every row of a dataset so many times, each attempt answered by an agent and scored, with durable results.
 *
 * **Details**
 *
 * An attempt is a row of `batch/RowPool` named `<row>#<number>`: what is finished is not asked or judged again, an attempt that failed is tried
 * again by the next run. A row that has a `response` is not asked: its response is scored, which compares judges with labels, and scores
 * answers that others gave. An attempt passes when all its scorers pass.
 *
 * **Example** (What is asked how often)
 *
 * ```ts
 * import { EvalRun } from "hermes-effect"
 *
 * const rules: EvalRun.Rules = {
 *   scorers: [{ kind: "judge" }],
 *   judges: [{ name: "haiku", route: { provider: "anthropic", model: "claude-haiku-4-5" } }],
 *   criteria: undefined,
 *   promptField: "prompt",
 *   referenceField: undefined,
 *   labelField: "label",
 *   runs: 2,
 *   commandSeconds: 60
 * }
 * const row = { id: "a", digest: "1", index: 0, file: "a.jsonl", line: 1, fields: { prompt: "What is 2+2?" } }
 *
 * console.log(EvalRun.attemptsOf([row], rules).map(({ id }) => id).join())
 * // => a#1,a#2
 * ```
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type { AiError } from "effect/ai/AiError"
import type { AgentError, ConfigError } from "../../domain/AgentError.ts"
import * as Cost from "../../domain/Cost.ts"
import * as Ids from "../../domain/Ids.ts"
import * as Json from "../../domain/Json.ts"
import * as Usage from "../../domain/Usage.ts"
import type { CommandEnvironment } from "../../environment/CommandEnvironment.ts"
import * as Digest from "../../platform/Digest.ts"
import type * as Auxiliary from "../../routing/Auxiliary.ts"
import type { Row } from "../batch/Dataset.ts"
import * as BatchRow from "../batch/BatchRow.ts"
import type { Journal, JournalError } from "../batch/RowJournal.ts"
import * as RowPool from "../batch/RowPool.ts"
import * as BoundedCommand from "../swe/BoundedCommand.ts"
import * as JudgeScorer from "./JudgeScorer.ts"
import * as Scorer from "./Scorer.ts"

/** Answer of a configuration to a row. */
export interface Answer {
  readonly text: string
  readonly model: string
  /** Exit of the run; `recorded` for a response of the dataset. */
  readonly exit: string
  readonly sessionId: string
  readonly usage: Usage.Usage
  readonly cost: Cost.Spent
  /** Seed that its model calls asked for. */
  readonly seed?: number | undefined
}

/** A configuration that is evaluated. */
export interface Subject {
  /** Answers the prompt of an attempt; `tell` is told of what is used on the way. */
  readonly ask: (prompt: string, attempt: Attempt, tell: RowPool.Tell) => Effect.Effect<Answer, AgentError>
  /** Side tasks that judges are asked by. */
  readonly auxiliary: Auxiliary.Service
}

/** Rules of an evaluation. */
export interface Rules {
  readonly scorers: ReadonlyArray<Scorer.Spec>
  readonly judges: ReadonlyArray<JudgeScorer.Judge>
  readonly criteria: string | undefined
  readonly promptField: string
  /** Field of references; the usual ones when undefined. */
  readonly referenceField: string | undefined
  readonly labelField: string
  /** Attempts at each row. */
  readonly runs: number
  readonly commandSeconds: number
}

/** An answer could not be scored. */
export class ScoreFailed extends Schema.TaggedError<ScoreFailed>("hermes-effect/runner/eval/ScoreFailed")("ScoreFailed", {
  message: Schema.String
}) {}

/** One attempt at a row. */
export interface Attempt {
  readonly id: string
  readonly digest: string
  readonly row: Row
  readonly number: number
}

/** Attempts at rows, the first one of every row before the second one of any. */
export const attemptsOf = (rows: ReadonlyArray<Row>, rules: Rules): ReadonlyArray<Attempt> => {
  const digest = Digest.hex(JSON.stringify([rules.scorers, rules.judges, rules.criteria, rules.promptField, rules.referenceField, rules.labelField]), 8)
  return Array.from({ length: rules.runs }, (_, index) => index + 1).flatMap((number) =>
    rows.map((row) => ({ id: `${row.id}#${number}`, digest: `${row.digest}${digest}`, row, number })))
}

/** Reason why a row cannot be used with the rules; undefined where it can. */
const problemOf = ({ fields, file, id, line }: Row, { promptField, referenceField, scorers }: Rules): string | undefined => {
  const where = `${file} line ${line} (row ${id})`
  const prompt = Json.string(fields[promptField])
  if ((prompt === undefined || prompt.trim() === "") && Json.string(fields["response"]) === undefined) return `${where} has no "${promptField}": name the field by --prompt-field`
  const reference = Scorer.referenceOf(fields, referenceField)
  const lacking = scorers.find((spec) => Scorer.lacksReference(spec, reference))
  return lacking === undefined ? undefined : `${where} has no reference for the scorer ${Scorer.nameOf(lacking)}: name the field by --reference-field`
}

/** Rows that can be used with the rules, and what is wrong with the others. */
export const usable = (rows: ReadonlyArray<Row>, rules: Rules): { readonly rows: ReadonlyArray<Row>; readonly problems: ReadonlyArray<string> } => {
  const problems = rows.map((row) => problemOf(row, rules))
  return { rows: rows.filter((_, index) => problems[index] === undefined), problems: problems.filter((problem) => problem !== undefined) }
}

/** Verdict of a scorer, with what judges said. */
interface Scored {
  readonly name: string
  readonly verdict: Scorer.Verdict
  readonly judged?: JudgeScorer.Judged
}

/** Runs the command of a scorer in a directory of its own. Its last line may be a score from 0 to 1. */
const byCommand = Effect.fnUntraced(function*(command: string, { answer, reference: { references }, row }: { readonly answer: string; readonly reference: Scorer.Reference; readonly row: Row }, timeoutSeconds: number) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const directory = yield* Effect.flatMap(fs.makeTempDirectoryScoped({ prefix: "hermes-eval-" }), fs.realPath)
  for (const [name, text] of [["answer.txt", answer], ["reference.txt", references.join("\n")], ["row.json", JSON.stringify(row.fields, null, 2)]] as const) {
    yield* fs.writeFileString(paths.join(directory, name), text)
  }
  const { exitCode, output } = yield* BoundedCommand.run({ command, cwd: directory, timeoutSeconds })
  const last = output.trim().split("\n").at(-1)?.trim() ?? ""
  if (exitCode === undefined) return Scorer.verdict(false, `the command did not end within ${timeoutSeconds} s`)
  if (exitCode === 126 || exitCode === 127) return yield* new ScoreFailed({ message: `command:${command} cannot be run: ${last}` })
  const number = /^(?:0(?:\.\d+)?|1(?:\.0+)?|\.\d+)$/.test(last) ? Number(last) : undefined
  return { passed: exitCode === 0, score: number ?? (exitCode === 0 ? 1 : 0), detail: exitCode === 0 ? "" : `exit code ${exitCode}${last === "" ? "" : `: ${last.slice(0, 200)}`}` }
}, Effect.scoped)

const score = Effect.fnUntraced(function*(spec: Scorer.Spec, { auxiliary }: Subject, attempt: Attempt, answer: Answer, rules: Rules) {
  const reference = Scorer.referenceOf(attempt.row.fields, rules.referenceField)
  const name = Scorer.nameOf(spec)
  switch (spec.kind) {
    case "command": {
      const verdict = yield* Effect.catchTag(byCommand(spec.option ?? "", { answer: answer.text, reference, row: attempt.row }, rules.commandSeconds), ["PlatformError", "CommandNotRun"], ({ message }) =>
        Effect.fail(new ScoreFailed({ message: `command: ${message}` })))
      return { name, verdict } satisfies Scored as Scored
    }
    case "judge": {
      const sessionId = Ids.SessionId.make(answer.sessionId)
      const taskId = Ids.TaskId.make(answer.sessionId)
      const judged = yield* JudgeScorer.judge(auxiliary, rules.judges, {
        question: Json.string(attempt.row.fields[rules.promptField]) ?? "",
        answer: answer.text,
        reference,
        criteria: rules.criteria
      }, { sessionId, taskId, turnId: yield* Ids.makeTurnId(sessionId, taskId) })
      return { name, verdict: judged.verdict, judged } satisfies Scored as Scored
    }
    default:
      return { name, verdict: Scorer.compare({ kind: spec.kind, option: spec.option }, answer.text, reference) } satisfies Scored as Scored
  }
})

const recorded = Effect.fnUntraced(function*({ row: { fields } }: Attempt, text: string): Effect.fn.Return<Answer> {
  return { text, model: Json.string(fields["model"]) ?? "recorded", exit: "recorded", sessionId: yield* Ids.makeSessionId, usage: Usage.zero, cost: Cost.spent(Cost.nothing) }
})

const plus = (a: number | undefined, b: number | undefined): number | undefined => a === undefined || b === undefined ? a ?? b : a + b

const usd = ({ status, usd }: Cost.Spent): number | undefined => status === "unknown" && (usd === 0 || usd === null) ? undefined : usd ?? undefined

const once = Effect.fn("EvalRun.attempt")(function*(
  subject: Subject,
  attempt: Attempt,
  rules: Rules,
  tell: RowPool.Tell
): Effect.fn.Return<RowPool.Result, AgentError | AiError | ConfigError | JudgeScorer.JudgeFailed | ScoreFailed, CommandEnvironment | FileSystem.FileSystem | Path.Path> {
  const began = yield* Clock.currentTimeMillis
  const { fields } = attempt.row
  const response = Json.string(fields["response"])
  const answer = response === undefined ? yield* subject.ask(Json.string(fields[rules.promptField]) ?? "", attempt, tell) : yield* recorded(attempt, response)
  const seconds = ((yield* Clock.currentTimeMillis) - began) / 1000
  const scores = yield* Effect.forEach(rules.scorers, (spec) => score(spec, subject, attempt, answer, rules))
  const judged = scores.flatMap(({ judged }) => judged ?? [])
  const judgeCost = judged.reduce((sum, { cost }) => Cost.plus(sum, Cost.fromSpent(Cost.spent(cost))), Cost.nothing)
  const label = JudgeScorer.labelOf(fields, rules.labelField)
  const costUsd = usd(answer.cost)
  const judgeUsd = usd(Cost.spent(judgeCost))
  return RowPool.finished({
    item: attempt.row.id,
    run: attempt.number,
    passed: scores.every(({ verdict }) => verdict.passed),
    scores: Object.fromEntries(scores.map(({ name, verdict }) => [name, verdict])),
    ...judged.length === 0 ? {} : { opinions: judged.flatMap(({ opinions }) => opinions), judge_cost_usd: judgeUsd ?? null },
    ...label === undefined ? {} : { label },
    prompt: Json.string(fields[rules.promptField]) ?? "",
    answer: answer.text,
    exit: answer.exit,
    model: answer.model,
    session_id: answer.sessionId,
    ...answer.seed === undefined ? {} : { seed: answer.seed },
    seconds: response === undefined ? seconds : null,
    usage: Usage.toWire(answer.usage),
    cost_usd: costUsd ?? null
  }, { tokens: Usage.totalTokens(judged.reduce((sum, { usage }) => Usage.add(sum, usage), answer.usage)), costUsd: plus(costUsd, judgeUsd) })
})

/** Options of a run. */
export interface Options extends Pick<RowPool.Options<Attempt, never, never>, "limits" | "timeout"> {
  readonly subject: Subject
  readonly rows: ReadonlyArray<Row>
  readonly rules: Rules
  readonly journal: Journal
  readonly concurrency: number
  readonly onProgress?: ((progress: RowPool.Progress) => Effect.Effect<void>) | undefined
}

/** Runs the attempts that have no result yet. */
export const run = Effect.fn("EvalRun.run")(function*(
  { concurrency, journal, limits, onProgress, rows, rules, subject, timeout }: Options
): Effect.fn.Return<RowPool.Summary, JournalError, CommandEnvironment | FileSystem.FileSystem | Path.Path> {
  return yield* RowPool.run({
    rows: attemptsOf(rows, rules),
    journal,
    concurrency,
    limits,
    timeout,
    onProgress,
    // The runtime repeats requests itself. A command that cannot be run would fail for every row.
    onFailure: (error) => error._tag === "ScoreFailed" || BatchRow.decide(error) === "stop" ? "stop" : "fail",
    run: (attempt: Attempt, _: RowPool.Attempt, tell: RowPool.Tell) => once(subject, attempt, rules, tell)
  })
})
