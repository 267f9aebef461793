#!/bin/sh
touch ran; echo ran
