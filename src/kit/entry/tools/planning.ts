/** Tools for an agent's planning: its task list, its memory, its skills, questions to the user, and sub-agents. */
export * as Clarifier from "../../../tools/builtin/Clarifier.ts"
export * as Clarify from "../../../tools/builtin/Clarify.ts"
export * as Delegate from "../../../tools/builtin/Delegate.ts"
export * as MemoryTool from "../../../tools/builtin/MemoryTool.ts"
export * as SessionSearchTool from "../../../tools/builtin/SessionSearchTool.ts"
export * as SkillTools from "../../../tools/builtin/SkillTools.ts"
export * as Todo from "../../../tools/builtin/Todo.ts"
