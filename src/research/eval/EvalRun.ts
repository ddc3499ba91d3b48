/**
 * Runs an evaluation. An agent answers every row of a dataset a given number of times. Each answer is scored, and the
 * results are stored durably.
 *
 * **Details**
 *
 * Each attempt is a work item of `batch/RowPool` with the id `<row>#<number>`. A finished attempt is not answered or
 * judged again. A failed attempt is retried by the next run. If a row has a `response`, the row is not sent to the
 * agent and this response is scored. This makes it possible to compare judges with labels and to score answers from
 * other sources. An attempt passes when all its scorers pass.
 *
 * The prompt of a row may be a list of turns (also in its field `turns`), which are sent one after another in one
 * session. A scorer then judges the answer to each turn, with the reference of the same position if there are as many
 * references as turns. It passes if every turn passes, and its score is the mean over turns.
 *
 * **Example** (Listing the attempts at each row)
 *
 * ```ts
 * import { EvalRun } from "hermes-effect/evaluation"
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
 * console.log(EvalRun.listAttempts([row], rules).map(({ id }) => id).join())
 * // => a#1,a#2
 * ```
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import type { AiError } from "effect/ai/AiError"
import type { AgentError, ConfigError } from "../../base/domain/AgentError.ts"
import * as Cost from "../../base/domain/Cost.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as Usage from "../../base/domain/Usage.ts"
import type { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import * as Digest from "../../base/platform/Digest.ts"
import type * as Auxiliary from "../../models/routing/Auxiliary.ts"
import type { Row } from "../batch/Dataset.ts"
import * as BatchRow from "../batch/BatchRow.ts"
import type { Journal, JournalError } from "../batch/RowJournal.ts"
import type * as Outcome from "../batch/Outcome.ts"
import * as RowPool from "../batch/RowPool.ts"
import * as BoundedCommand from "../swe/BoundedCommand.ts"
import type * as EvalReport from "./EvalReport.ts"
import * as EvalTurns from "./EvalTurns.ts"
import * as JudgeScorer from "./JudgeScorer.ts"
import * as Scorer from "./Scorer.ts"

/** A configuration's answer to an attempt. */
export interface Answer {
  /** Answer to the last turn. */
  readonly text: string
  /** Answers to all turns of a row with several. */
  readonly turns?: ReadonlyArray<string> | undefined
  readonly model: string
  /** Exit of the run, or `recorded` for a response from the dataset. */
  readonly exit: string
  readonly sessionId: string
  readonly usage: Usage.Usage
  readonly cost: Cost.Spent
  /** Seed requested by the attempt's model calls. */
  readonly seed?: number | undefined
}

/** A configuration to evaluate. */
export interface Subject {
  /**
   * Answers the prompt of an attempt, and the later turns of {@link Attempt.turns} in the same session. `tell` receives
   * usage during the run.
   */
  readonly ask: (prompt: string, attempt: Attempt, tell: RowPool.UsageReporter) => Effect.Effect<Answer, AgentError>
  /** Service that runs the side tasks of judges. */
  readonly auxiliary: Auxiliary.Service
}

/** A configuration whose attempts are answered and scored in other processes. */
export interface RemoteSubject {
  readonly submit: (
    attempt: Attempt,
    rules: Rules,
    number: RowPool.Attempt
  ) => Effect.Effect<RowPool.Result, Outcome.ReportedFailure>
}

/** Rules of an evaluation. */
export interface Rules {
  readonly scorers: ReadonlyArray<Scorer.Spec>
  readonly judges: ReadonlyArray<JudgeScorer.Judge>
  readonly criteria: string | undefined
  readonly promptField: string
  /** Name of the field that contains the references. If `undefined`, the usual field names are tried. */
  readonly referenceField: string | undefined
  readonly labelField: string
  /** Number of attempts at each row. */
  readonly runs: number
  readonly commandSeconds: number
}

/** Error raised when an answer could not be scored. */
export class ScoreFailed extends Schema.TaggedError<ScoreFailed>("hermes-effect/runner/eval/ScoreFailed")(
  "ScoreFailed",
  { message: Schema.String }
) {}

/** Error raised when the scorers of one row came to no verdict. Other rows are not affected. */
export class RowNotScored extends Schema.TaggedError<RowNotScored>("hermes-effect/runner/eval/RowNotScored")(
  "RowNotScored",
  { message: Schema.String }
) {}

/** One attempt at a row. */
export interface Attempt {
  readonly id: string
  readonly digest: string
  readonly row: Row
  readonly number: number
  /** Prompts after the first one. */
  readonly turns: ReadonlyArray<string>
}

/** Lists the attempts in the order in which they run: one attempt at every row, then the second attempts, and so on. */
export const listAttempts = (rows: ReadonlyArray<Row>, rules: Rules): ReadonlyArray<Attempt> => {
  const digest = Digest.toHex(
    JSON.stringify([
      rules.scorers,
      rules.judges,
      rules.criteria,
      rules.promptField,
      rules.referenceField,
      rules.labelField
    ]),
    8
  )
  return Array.from({ length: rules.runs }, (_, index) => index + 1).flatMap((number) =>
    rows.map((row) => ({
      id: `${row.id}#${number}`,
      digest: `${row.digest}${digest}`,
      row,
      number,
      turns: EvalTurns.readTurns(row.fields, rules.promptField).slice(1)
    }))
  )
}

/** Returns the reason why a row cannot be evaluated with the rules, or `undefined` if it can. */
const findProblem = (
  { fields, file, id, line }: Row,
  { promptField, referenceField, scorers }: Rules
): string | undefined => {
  const where = `${file} line ${line} (row ${id})`
  if (EvalTurns.readTurns(fields, promptField).length === 0 && EvalTurns.readResponses(fields) === undefined)
    return `${where} has no "${promptField}": name the field by --prompt-field`
  const reference = Scorer.readReference(fields, referenceField)
  const lacking = scorers.find((spec) => Scorer.isMissingReference(spec, reference))
  return lacking === undefined
    ? undefined
    : `${where} has no reference for the scorer ${Scorer.formatName(lacking)}: name the field by --reference-field`
}

/** Returns the rows that can be evaluated with the rules, and the problems of the other rows. */
export const selectUsable = (
  rows: ReadonlyArray<Row>,
  rules: Rules
): { readonly rows: ReadonlyArray<Row>; readonly problems: ReadonlyArray<string> } => {
  const problems = rows.map((row) => findProblem(row, rules))
  return {
    rows: rows.filter((_, index) => problems[index] === undefined),
    problems: problems.filter((problem) => problem !== undefined)
  }
}

/** Verdict of a named scorer, with the opinions of judges. */
interface NamedVerdict {
  readonly name: string
  readonly verdict: Scorer.Verdict
  readonly judged?: JudgeScorer.Judgement
}

/** Runs the command of a scorer in a separate directory. The last line of its output may be a score from 0 to 1. */
const scoreByCommand = Effect.fnUntraced(function* (
  command: string,
  {
    answer,
    reference: { references },
    row
  }: { readonly answer: string; readonly reference: Scorer.Reference; readonly row: Row },
  timeoutSeconds: number
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const directory = yield* Effect.flatMap(fs.makeTempDirectoryScoped({ prefix: "hermes-eval-" }), fs.realPath)
  for (const [name, text] of [
    ["answer.txt", answer],
    ["reference.txt", references.join("\n")],
    ["row.json", JSON.stringify(row.fields, null, 2)]
  ] as const) {
    yield* fs.writeFileString(paths.join(directory, name), text)
  }
  const { exitCode, output } = yield* BoundedCommand.run({ command, cwd: directory, timeoutSeconds })
  const last = output.trim().split("\n").at(-1)?.trim() ?? ""
  if (exitCode === undefined) return Scorer.makeVerdict(false, `the command did not end within ${timeoutSeconds} s`)
  if (exitCode === 126 || exitCode === 127)
    return yield* new ScoreFailed({ message: `command:${command} cannot be run: ${last}` })
  const number = /^(?:0(?:\.\d+)?|1(?:\.0+)?|\.\d+)$/.test(last) ? Number(last) : undefined
  return {
    passed: exitCode === 0,
    score: number ?? (exitCode === 0 ? 1 : 0),
    detail: exitCode === 0 ? "" : `exit code ${exitCode}${last === "" ? "" : `: ${last.slice(0, 200)}`}`
  }
}, Effect.scoped)

const scoreTurn = Effect.fnUntraced(function* (
  spec: Scorer.Spec,
  { auxiliary }: Subject,
  attempt: Attempt,
  { answer, question, reference }: EvalTurns.AnsweredTurn,
  {
    criteria,
    commandSeconds,
    judges,
    sessionId
  }: Pick<Rules, "criteria" | "commandSeconds" | "judges"> & Pick<Answer, "sessionId">
) {
  const name = Scorer.formatName(spec)
  switch (spec.kind) {
    case "command": {
      const verdict = yield* Effect.catchTag(
        scoreByCommand(spec.option ?? "", { answer, reference, row: attempt.row }, commandSeconds),
        ["PlatformError", "CommandNotRun"],
        ({ message }) => Effect.fail(new ScoreFailed({ message: `command: ${message}` }))
      )
      return { name, verdict } satisfies NamedVerdict as NamedVerdict
    }
    case "judge": {
      const id = Ids.SessionId.make(sessionId)
      const taskId = Ids.TaskId.make(sessionId)
      const judged = yield* JudgeScorer.judge(
        auxiliary,
        judges,
        { question, answer, reference, criteria },
        { sessionId: id, taskId, turnId: yield* Ids.makeTurnId(id, taskId) }
      )
      return { name, verdict: judged.verdict, judged } satisfies NamedVerdict as NamedVerdict
    }
    default:
      return {
        name,
        verdict: Scorer.compare({ kind: spec.kind, option: spec.option }, answer, reference)
      } satisfies NamedVerdict as NamedVerdict
  }
})

/** Scores all turns of an attempt by one scorer. */
const scoreAnswer = Effect.fnUntraced(function* (
  spec: Scorer.Spec,
  subject: Subject,
  attempt: Attempt,
  turns: ReadonlyArray<EvalTurns.AnsweredTurn>,
  rules: Parameters<typeof scoreTurn>[4]
) {
  const scored = yield* Effect.forEach(turns, (turn) => scoreTurn(spec, subject, attempt, turn, rules))
  return {
    name: Scorer.formatName(spec),
    verdict: EvalTurns.combineTurns(scored.map(({ verdict }) => verdict)),
    judged: scored.flatMap(({ judged }) => judged ?? [])
  }
})

const toRecordedAnswer = Effect.fnUntraced(function* (
  { row: { fields } }: Attempt,
  turns: ReadonlyArray<string>
): Effect.fn.Return<Answer> {
  return {
    text: turns.at(-1) ?? "",
    turns,
    model: Json.readString(fields["model"]) ?? "recorded",
    exit: "recorded",
    sessionId: yield* Ids.makeSessionId,
    usage: Usage.zero,
    cost: Cost.toSpent(Cost.nothing)
  }
})

const addCosts = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : a + b

const getKnownCost = ({ status, usd }: Cost.Spent): number | undefined =>
  status === "unknown" && (usd === 0 || usd === null) ? undefined : (usd ?? undefined)

/** Errors of an attempt. */
export type AttemptError =
  | AgentError
  | AiError
  | ConfigError
  | JudgeScorer.JudgeFailed
  | Outcome.ReportedFailure
  | RowNotScored
  | ScoreFailed

/** Runs one attempt: asks the subject, and scores its answers. */
export const runAttempt = Effect.fn("EvalRun.attempt")(function* (
  subject: Subject,
  attempt: Attempt,
  rules: Rules,
  tell: RowPool.UsageReporter
): Effect.fn.Return<RowPool.Result, AttemptError, CommandEnvironment | FileSystem.FileSystem | Path.Path> {
  const began = yield* Clock.currentTimeMillis
  const { fields } = attempt.row
  const prompts = EvalTurns.readTurns(fields, rules.promptField)
  const reference = Scorer.readReference(fields, rules.referenceField)
  const responses = EvalTurns.readResponses(fields)
  const answer =
    responses === undefined
      ? yield* subject.ask(prompts[0] ?? "", attempt, tell)
      : yield* toRecordedAnswer(attempt, responses)
  const answers = answer.turns ?? [answer.text]
  const seconds = ((yield* Clock.currentTimeMillis) - began) / 1000
  const turns = EvalTurns.listTurns(prompts, answers, reference)
  const scores = yield* Effect.forEach(rules.scorers, (spec) =>
    scoreAnswer(spec, subject, attempt, turns, { ...rules, sessionId: answer.sessionId })
  )
  const undecided = scores.find(({ verdict }) => verdict.isUndecided === true)
  if (undecided !== undefined)
    return yield* new RowNotScored({ message: `${undecided.name}: ${undecided.verdict.detail}` })
  const judged = scores.flatMap(({ judged }) => judged)
  const judgeCost = judged.reduce(
    (sum, { cost }) => Cost.addCall(sum, Cost.fromSpent(Cost.toSpent(cost))),
    Cost.nothing
  )
  const label = JudgeScorer.readLabel(fields, rules.labelField)
  const costUsd = getKnownCost(answer.cost)
  const judgeUsd = getKnownCost(Cost.toSpent(judgeCost))
  return RowPool.makeFinishedResult(
    {
      item: attempt.row.id,
      run: attempt.number,
      passed: scores.every(({ verdict }) => verdict.passed),
      scores: Object.fromEntries(scores.map(({ name, verdict }) => [name, verdict])),
      ...(judged.length === 0
        ? {}
        : { opinions: judged.flatMap(({ opinions }) => opinions), judge_cost_usd: judgeUsd ?? null }),
      ...(label === undefined ? {} : { label }),
      prompt: EvalTurns.joinTurns(prompts),
      expected: Scorer.formatExpected(reference),
      answer: EvalTurns.joinTurns(answers),
      exit: answer.exit,
      model: answer.model,
      session_id: answer.sessionId,
      ...(answer.seed === undefined ? {} : { seed: answer.seed }),
      seconds: responses === undefined ? seconds : null,
      usage: Usage.toWire(answer.usage),
      cost_usd: costUsd ?? null
    },
    {
      tokens: Usage.countTotalTokens(judged.reduce((sum, { usage }) => Usage.add(sum, usage), answer.usage)),
      costUsd: addCosts(costUsd, judgeUsd)
    }
  )
})

/** Returns the prompt and the expected answer of a row, cut to the length that a page shows without opening it. */
export const describeRow = ({ fields, id }: Row, { promptField, referenceField }: Rules): EvalReport.RowText => ({
  item: id,
  prompt: TextCut.shorten(EvalTurns.joinTurns(EvalTurns.readTurns(fields, promptField)), shownChars),
  expected: TextCut.shorten(Scorer.formatExpected(Scorer.readReference(fields, referenceField)), shownChars)
})

/** Maximum number of characters of {@link describeRow}. */
const shownChars = 300

/** Options of a run. */
export interface Options extends Pick<RowPool.Options<Attempt, never, never>, "limits" | "timeout"> {
  readonly subject: RemoteSubject | Subject
  readonly rows: ReadonlyArray<Row>
  readonly rules: Rules
  readonly journal: Journal
  readonly concurrency: number
  readonly onProgress?: ((progress: RowPool.Progress) => Effect.Effect<void>) | undefined
}

/** Runs the attempts that have no result yet. */
export const run = Effect.fn("EvalRun.run")(function* ({
  concurrency,
  journal,
  limits,
  onProgress,
  rows,
  rules,
  subject,
  timeout
}: Options): Effect.fn.Return<RowPool.Summary, JournalError, CommandEnvironment | FileSystem.FileSystem | Path.Path> {
  return yield* RowPool.run({
    rows: listAttempts(rows, rules),
    journal,
    concurrency,
    limits,
    timeout,
    onProgress,
    // The runtime already retries requests, so attempts are not retried. The run stops if a command cannot be run,
    // because it would fail for every row.
    onFailure: (error) =>
      error._tag === "ScoreFailed" || BatchRow.decideOnFailure(error) === "stop" ? "stop" : "fail",
    run: (
      attempt: Attempt,
      number: RowPool.Attempt,
      tell: RowPool.UsageReporter
    ): Effect.Effect<RowPool.Result, AttemptError, CommandEnvironment | FileSystem.FileSystem | Path.Path> =>
      "submit" in subject ? subject.submit(attempt, rules, number) : runAttempt(subject, attempt, rules, tell)
  })
})
