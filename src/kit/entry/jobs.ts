/** Scheduled jobs: their store, the tool that schedules them, and their runs. */
export * as CronContext from "../../tools/cron/CronContext.ts"
export * as CronJobTool from "../../tools/builtin/CronJobTool.ts"
export * as CronJobs from "../../tools/cron/CronJobs.ts"
export * as JobAgent from "../../research/cron/JobAgent.ts"
export * as JobRun from "../../research/cron/JobRun.ts"
export * as JobTick from "../../research/cron/JobTick.ts"
export * as JobWait from "../../research/cron/JobWait.ts"
