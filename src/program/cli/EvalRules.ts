/** Reads the rules of `hermes eval run` from its flags: scorers, judges and fields. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as EvalRun from "../../research/eval/EvalRun.ts"
import * as JudgeScorer from "../../research/eval/JudgeScorer.ts"
import * as Scorer from "../../research/eval/Scorer.ts"
import type { RunFlags } from "./EvalCommand.ts"
import { type Failure, makeUsageFailure } from "./Failure.ts"
import { checkCounts } from "./RunnerCommand.ts"

const readScorers = Effect.fnUntraced(function* (texts: ReadonlyArray<string>) {
  if (texts.length === 0) return yield* makeUsageFailure(`pass a scorer with --scorer: ${Scorer.kinds.join(", ")}`)
  const scorers: Array<Scorer.Spec> = []
  for (const text of texts) {
    const parsed = Scorer.parse(text)
    if (Result.isFailure(parsed)) return yield* makeUsageFailure(parsed.failure)
    scorers.push(parsed.success)
  }
  return scorers
})

/** Reads the judges. If two judges have the same name, a number is added to the name of the later one. */
const readJudges = Effect.fnUntraced(function* (texts: ReadonlyArray<string>) {
  const judges: Array<JudgeScorer.Judge> = []
  for (const text of texts) {
    const parsed = JudgeScorer.parse(text)
    if (Result.isFailure(parsed)) return yield* makeUsageFailure(`--judge: ${parsed.failure}`)
    judges.push(parsed.success)
  }
  if (judges.length === 0) return [JudgeScorer.configured]
  return judges.map((judge, index) =>
    judges.findIndex(({ name }) => name === judge.name) === index
      ? judge
      : { ...judge, name: `${judge.name} (${index + 1})` }
  )
})

/** Returns true if a judge is one of the scorers. */
export const hasJudge = ({ scorers }: Pick<EvalRun.Rules, "scorers">): boolean =>
  scorers.some(({ kind }) => kind === "judge")

/** Reads the rules named by the flags. */
export const readRules = Effect.fnUntraced(function* (flags: RunFlags): Effect.fn.Return<EvalRun.Rules, Failure> {
  yield* checkCounts({
    runs: flags.runs,
    workers: flags.workers,
    limit: flags.limit,
    "command-timeout": flags.commandTimeout,
    "max-turns": flags.maxTurns
  })
  if (flags.threshold !== undefined && !(flags.threshold >= 0 && flags.threshold <= 1))
    return yield* makeUsageFailure("--threshold must be a number from 0 to 1, such as 0.9")
  const scorers = yield* readScorers(flags.scorer)
  if (!hasJudge({ scorers }) && (flags.judge.length > 0 || flags.criteria !== undefined))
    return yield* makeUsageFailure("--judge and --criteria are for the scorer judge: add --scorer judge")
  return {
    scorers,
    judges: yield* readJudges(flags.judge),
    criteria: flags.criteria,
    promptField: flags.promptField ?? "prompt",
    referenceField: flags.referenceField,
    labelField: flags.labelField ?? "label",
    runs: flags.runs ?? 1,
    commandSeconds: flags.commandTimeout ?? 60
  }
})
