/** The tool that runs scripts, which call the other tools. */
export * as ExecuteCode from "../../tool/builtin/ExecuteCode.ts"
