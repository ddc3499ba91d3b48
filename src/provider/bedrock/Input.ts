/**
 * From a request, after middleware has seen it, to the input of the AWS SDK's command.
 *
 * **Details**
 *
 * Fields that Converse knows stay where they are. Every other one (`top_k` from `extra_body`, say) is a field of the model
 * behind it and goes into `additionalModelRequestFields`, where it wins.
 *
 * @since 0.1.0
 */
import * as Raw from "../Raw.ts"

const converseFields = new Set([
  "modelId",
  "messages",
  "system",
  "inferenceConfig",
  "toolConfig",
  "guardrailConfig",
  "additionalModelRequestFields",
  "promptVariables",
  "additionalModelResponseFieldPaths",
  "requestMetadata",
  "performanceConfig",
  "serviceTier",
  "outputConfig"
])

/** See the module. */
export const of = (body: Raw.Fields): Raw.Fields => {
  const input: Record<string, unknown> = {}
  const additional: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(body)) {
    if (name === "stream") continue
    if (converseFields.has(name)) input[name] = value
    else additional[name] = value
  }
  return Object.keys(additional).length === 0
    ? input
    : {
      ...input,
      additionalModelRequestFields: { ...Raw.fields(input["additionalModelRequestFields"]), ...additional }
    }
}
