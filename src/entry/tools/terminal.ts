/** Tools that run commands and look after background processes. */
export * as Terminal from "../../tool/builtin/Terminal.ts"
export * as ProcessEvents from "../../tool/builtin/terminal/ProcessEvents.ts"
export * as ProcessRegistry from "../../tool/builtin/terminal/ProcessRegistry.ts"
