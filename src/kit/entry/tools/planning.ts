/** Tools of an agent's own work: its list of tasks, its memory, its skills, questions to the user, and child agents. */
export * as Clarifier from "../../../tools/builtin/Clarifier.ts"
export * as Clarify from "../../../tools/builtin/Clarify.ts"
export * as Delegate from "../../../tools/builtin/Delegate.ts"
export * as MemoryTool from "../../../tools/builtin/MemoryTool.ts"
export * as SessionSearchTool from "../../../tools/builtin/SessionSearchTool.ts"
export * as SkillTools from "../../../tools/builtin/SkillTools.ts"
export * as Todo from "../../../tools/builtin/Todo.ts"
