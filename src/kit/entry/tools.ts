/** Building blocks of tools: toolsets, annotations, contexts, the order of calls, and the text of results. */
export * as Annotations from "../../tools/Annotations.ts"
export * as BuiltinSettings from "../../tools/builtin/BuiltinSettings.ts"
export * as ResultText from "../../tools/ResultText.ts"
export * as ToolContext from "../../tools/ToolContext.ts"
export * as ToolOutput from "../../base/domain/ToolOutput.ts"
export * as ToolRegistry from "../../tools/ToolRegistry.ts"
export * as ToolSchedule from "../../tools/ToolSchedule.ts"
export * as Toolset from "../../tools/Toolset.ts"
