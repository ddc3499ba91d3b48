/** Tools of an agent's own work: its list of tasks, its memory, its skills, questions to the user, and child agents. */
export * as Clarifier from "../../tool/builtin/Clarifier.ts"
export * as Clarify from "../../tool/builtin/Clarify.ts"
export * as Delegate from "../../tool/builtin/Delegate.ts"
export * as MemoryTool from "../../tool/builtin/MemoryTool.ts"
export * as SessionSearchTool from "../../tool/builtin/SessionSearchTool.ts"
export * as SkillTools from "../../tool/builtin/SkillTools.ts"
export * as Todo from "../../tool/builtin/Todo.ts"
