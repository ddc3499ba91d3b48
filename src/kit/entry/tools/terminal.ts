/** Tools that run commands and manage background processes. */
export * as TerminalTools from "../../../tools/builtin/TerminalTools.ts"
export * as ProcessEvents from "../../../tools/builtin/terminal/ProcessEvents.ts"
export * as ProcessRegistry from "../../../tools/builtin/terminal/ProcessRegistry.ts"
