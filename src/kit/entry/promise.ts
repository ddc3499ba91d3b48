/** The runtime for code without Effect. */
export { createHermes, fromLayer, type Hermes } from "../promise/CreateHermes.ts"
export {
  type HermesEvent,
  type HermesInput,
  type HermesModel,
  type HermesModelName,
  type HermesOptions,
  type CallsOf,
  type HermesResult,
  type HermesTools,
  type Listeners
} from "../promise/HermesOptions.ts"
export { type AnswerFile, type RunCall, type RunDetails, type StepUsage } from "../../base/domain/RunDetails.ts"
export * as ToolContent from "../../base/domain/ToolContent.ts"
export { HermesError, type Tag } from "../promise/HermesError.ts"
export { type HermesTool, tool, type ToolCall, type ToolOptions } from "../promise/StandardTool.ts"
export { type PartialValueOf, type PlainOutput, type ValueOf } from "../promise/PlainOutput.ts"
export { type PlainData, type PlainMessage, type PlainPart, type PlainPrompt } from "../promise/PlainPrompt.ts"
export { type HermesMcp, mcp } from "../promise/PlainServers.ts"
export { type ExecutionCall, type HermesMiddleware } from "../promise/PlainMiddleware.ts"
export { type HermesSession } from "../promise/PlainSessions.ts"
