/** Workflows from steps, durable with the store of their executions. */
export * as Steps from "../../serve/cluster/workflow/Steps.ts"
export * as WorkflowRuns from "../../serve/cluster/workflow/WorkflowRuns.ts"
