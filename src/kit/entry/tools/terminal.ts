/** Tools that run commands and look after background processes. */
export * as Terminal from "../../../tools/builtin/Terminal.ts"
export * as ProcessEvents from "../../../tools/builtin/terminal/ProcessEvents.ts"
export * as ProcessRegistry from "../../../tools/builtin/terminal/ProcessRegistry.ts"
