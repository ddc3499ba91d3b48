/** Evaluations of agents: cases, scores, statistics and reports. */
export * as EvalAnswer from "../../research/eval/EvalAnswer.ts"
export * as EvalPage from "../../research/eval/EvalPage.ts"
export * as EvalReport from "../../research/eval/EvalReport.ts"
export * as EvalRun from "../../research/eval/EvalRun.ts"
export * as EvalStatistics from "../../research/eval/EvalStatistics.ts"
export * as Experiment from "../../research/eval/Experiment.ts"
export * as JudgeScorer from "../../research/eval/JudgeScorer.ts"
export * as Scorer from "../../research/eval/Scorer.ts"
