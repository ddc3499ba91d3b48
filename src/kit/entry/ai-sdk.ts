/** Integration with the AI SDK (`ai`): its models as providers, and an agent as its language model or tool. */
export * as FromAiSdk from "../../models/provider/FromAiSdk.ts"
export {
  languageModel,
  type LanguageModelOptions,
  runningModel,
  type RunningModelOptions
} from "../promise/AiSdkModel.ts"
export type { Specifications } from "../promise/AiSdkOlderModel.ts"
export { type AgentTool, agentTool, type AgentToolOptions } from "../promise/AiSdkTool.ts"
