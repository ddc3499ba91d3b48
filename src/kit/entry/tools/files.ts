/** Tools that read, write, change and search files, and the state that they share. */
export * as FileTools from "../../../tools/builtin/FileTools.ts"
export * as FileState from "../../../tools/builtin/file/FileState.ts"
export * as PathRoots from "../../../tools/builtin/file/PathRoots.ts"
export * as FileUndo from "../../../tools/FileUndo.ts"
