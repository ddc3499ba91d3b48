/** The system prompt and its sources: memory, skills, and the compaction of long conversations. */
export * as Compaction from "../../tools/prompt/Compaction.ts"
export * as MemoryProvider from "../../base/domain/MemoryProvider.ts"
export * as MemoryStore from "../../tools/prompt/MemoryStore.ts"
export * as SkillStore from "../../tools/prompt/SkillStore.ts"
export * as SystemPrompt from "../../tools/prompt/SystemPrompt.ts"
