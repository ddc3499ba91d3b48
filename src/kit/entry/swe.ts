/** Software engineering tasks: task folders, working copies, runs and their evaluation. */
export * as SweAttempts from "../../research/swe/SweAttempts.ts"
export * as SweEvaluation from "../../research/swe/SweEvaluation.ts"
export * as SwePool from "../../research/swe/SwePool.ts"
export * as SweRun from "../../research/swe/SweRun.ts"
export * as SweTask from "../../research/swe/SweTask.ts"
export * as TaskFolder from "../../research/swe/TaskFolder.ts"
export * as TestReport from "../../research/swe/TestReport.ts"
export * as WorkingCopy from "../../research/swe/WorkingCopy.ts"
