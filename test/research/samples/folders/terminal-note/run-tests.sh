#!/bin/bash
bash /tests/check.sh
