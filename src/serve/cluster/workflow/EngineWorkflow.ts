/**
 * The workflow of `effect/workflow` behind a definition. Its tag is made of the name and the version, so that
 * executions of an earlier version continue with their own definition.
 */
import * as Schema from "effect/Schema"
import * as Workflow from "effect/workflow/Workflow"
import type { Execution } from "./WorkflowStore.ts"

/** Returns the tag of the engine's workflow. */
export const toTag = (name: string, version: number): string => `hermes/steps/${name}@${version}`

/** Makes the engine's workflow of a definition. The id of an execution depends on the tag and on `id` alone. */
export const makeTypedWorkflow = <Input extends Schema.Top, Output extends Schema.Top, Failure extends Schema.Top>(
  tag: string,
  { failure, input, output }: { readonly input: Input; readonly output: Output; readonly failure: Failure }
) =>
  Workflow.make(tag, {
    payload: Schema.Struct({ id: Schema.String, input }),
    success: output,
    error: failure,
    idempotencyKey: (payload) =>
      // The payload is the struct above, whose type TypeScript does not resolve in a generic function.
      (payload as { readonly id: string }).id
  })

/** Makes the engine's workflow of a stored execution, for a process that may not have the definition. */
export const makeEngineWorkflow = ({ version, workflow }: Pick<Execution, "version" | "workflow">) =>
  makeTypedWorkflow(toTag(workflow, version), {
    input: Schema.Unknown,
    output: Schema.Unknown,
    failure: Schema.Unknown
  })
